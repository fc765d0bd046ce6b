"""Learns an op the first time it runs at a place of a step: its name, source lines and edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.input_matching import InputMatcher
from sonde.adapters.torch.eager.naming.scope_stack import ScopeStack
from sonde.adapters.torch.eager.naming.scopes import RECOMPUTED, ROOT, OpScope, ScopeRegistry
from sonde.adapters.torch.eager.naming.source_lines import (
    above_engine,
    begins_backward,
    find_user_frame,
    joined_sources,
    runs_module,
    stack_of,
)
from sonde.adapters.torch.eager.op_outputs import (
    argument_slots,
    final_attributes,
    is_filled,
    output_ref,
    sibling_with,
    twin_of,
    unreturned_writes,
)
from sonde.adapters.torch.eager.op_schema import OpInfo, attributes_of, op_info
from sonde.adapters.torch.eager.op_tree import (
    ALIAS,
    FRESH,
    WRITTEN,
    OpRecord,
    StepInput,
    Structures,
    TensorRef,
)
from sonde.adapters.torch.eager.step_inputs import spec_of, storage_key
from sonde.adapters.torch.eager.step_tables import Tables
from sonde.adapters.torch.tensors.unusual_layouts import placement_of
from sonde.core.graph import FORWARD_OP, Edge, OpNode, Source
from sonde.core.interruption import pass_on
from sonde.watch.op_types import OVERWRITES, OVERWRITING, slots_text

_NO_SEQUENCE = 1 << 62
LIFTING = "lift_fresh"
"""The op by which ``torch.tensor`` returns the tensor that it made."""


Forward = tuple[str, tuple[Source, ...]]
"""The scope and the source lines of a forward op."""


class Located(NamedTuple):
    """Where an op is called from.

    ``matched`` is the scope that a later run of it has: ``scope``, except for the first gradient of
    a backward pass. ``depth``, ``code`` and ``last`` as in `OpRecord`. ``is_caused``: whether a
    forward op caused it.
    """

    scope: OpScope
    matched: OpScope
    depth: int
    code: CodeType | None
    last: int
    sources: tuple[Source, ...]
    is_caused: bool


@dataclass(slots=True, eq=False)
class Learner:
    """Makes records. Shares the tables of the running step with the Observer that owns it.

    ``traced`` are the source lines of the ops that run next, where the frames do not show them
    (code that was traced by the compiler); ``outer`` are those that the frames end with, where a
    step is executed again. ``ran_compiled``: whether an op ran inside a function
    that torch.compile returned; None: that is not checked.
    """

    _scopes: ScopeRegistry
    _structures: Structures
    _tables: Tables
    _inputs: InputMatcher
    _stack: ScopeStack
    ran_compiled: bool | None = None
    traced: tuple[Source, ...] = ()
    outer: tuple[Source, ...] = ()
    _tip: OpRecord | None = None
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _used: set[StepInput] = field(default_factory=set)

    def end_step(self) -> None:
        self._tip = None

    def learn(
        self,
        parent: OpRecord,
        func: Any,
        tensors: list[torch.Tensor],
        keys: list[int],
        args: Sequence[Any],
        kwargs: dict[str, Any] | None,
        caller: FrameType,
    ) -> OpRecord:
        """Make a record for an op about to run after ``parent``; see `learn_outputs`."""
        self._catch_up(parent)
        info = op_info(func)
        node = private.current_autograd_node()
        cause = None if node is None else self._cause(node)
        forward = None if cause is None else (cause.node.scope, cause.node.sources)
        place = self.locate(caller, node, forward)
        record = OpRecord(parent, func, info, place.matched)
        record.depth, record.code, record.last = place.depth, place.code, place.last
        self._wire(record, tensors, keys, find_user_frame(caller)[1] or caller)
        record.writes = argument_slots(info.writes, info, args, kwargs)
        record.overwrites = argument_slots(info.overwrites, info, args, kwargs)
        attributes = attributes_of(info, args, kwargs)
        if record.overwrites and info.type not in OVERWRITING:
            attributes = (*attributes, (OVERWRITES, slots_text(record.overwrites)))
        if cause is not None and place.is_caused:
            attributes = (*attributes, (FORWARD_OP, cause.node.name))
        attributes = (*attributes, *_placements("input", tensors))
        record.node = OpNode(
            name=self.next_name(parent, place.scope.name, info.type),
            type=info.type,
            scope=place.scope.name,
            phase=place.scope.phase,
            inputs=_edges(record, tensors),
            attributes=attributes,
            sources=place.sources,
        )
        return record

    def learn_outputs(
        self,
        record: OpRecord,
        results: list[torch.Tensor],
        tensors: list[torch.Tensor],
        keys: list[int],
    ) -> OpRecord:
        """Complete a new record after its op has run for the first time, or find or make the one
        for this number of outputs. ``tensors`` are the inputs, ``keys`` their storages.

        ``results`` is the caller's list, and changes here. The outputs of an op, for Sonde, are
        what it returned and, behind that, the inputs it wrote to without returning them
        (``record.returned``). The caller appended these as an existing record said. Where that
        record does not fit, they are cut off, and appended again as the right record says, so that
        ``results`` and ``outs`` of the record that is returned correspond.
        """
        if record.order >= 0:  # A known record, but the op returned more or fewer tensors.
            del results[len(results) - len(record.returned) :]
            sibling = sibling_with(record, len(results))
            if sibling is not None:
                results.extend(tensors[slot] for slot in sibling.returned)
                return sibling
            record = twin_of(record)
            self._tip = None
        record.returned = unreturned_writes(record, results, tensors)
        results.extend(tensors[slot] for slot in record.returned)
        record.outs = self._outputs(record, results, tensors, keys)
        attributes = final_attributes(record, tuple(_placements("output", results)))
        specs = tuple(map(spec_of, results))
        record.node = replace(record.node, outputs=specs, attributes=attributes)
        self.add(record)
        return record

    def _outputs(
        self,
        record: OpRecord,
        results: list[torch.Tensor],
        tensors: list[torch.Tensor],
        keys: list[int],
    ) -> tuple[tuple[int, TensorRef], ...]:
        """What each output is to the tables (FRESH, ALIAS or WRITTEN), and its reference."""
        written = {private.tensor_id(tensors[slot]) for slot in record.writes}
        written_keys = {keys[slot] for slot in record.writes}
        outs: list[tuple[int, TensorRef]] = []
        changed: set[int] = set()
        for slot, tensor in enumerate(results):
            key = storage_key(tensor)
            known = key in keys or key in changed or self._tables.entry(key) is not None
            # If the op returns several tensors over one storage, the first is the write to it, the
            # others are views of the result.
            is_written = private.tensor_id(tensor) in written or key in written_keys
            is_change = is_written and key not in changed
            kind = WRITTEN if is_change else ALIAS if known else FRESH
            changed.add(key)
            geometry = self._inputs.geometry(tensor)
            outs.append((kind, output_ref(record, slot, kind, tensor, geometry, keys, key)))
        source = record.sources[0] if record.sources else None
        if source is not None and len(outs) == 1 and record.info.rearranges:
            outs[0][1].values = source.values
        return tuple(outs)

    def next_name(self, parent: OpRecord, scope: str, op_type: str) -> str:
        """The name of an op that runs after ``parent``."""
        self._catch_up(parent)
        return f"{scope}/{op_type}-op{self._counts[(scope, op_type)]}"

    def add(self, record: OpRecord) -> None:
        """Put a record whose op has run into the tree."""
        parent = record.parent
        assert parent is not None
        record.order = parent.order + 1 + len(record.leaves)
        # The consumers were asked before the outputs were known, which a selection may name.
        record.wants_generation = -1
        self._append(parent, record)

    def _append(self, parent: OpRecord, record: OpRecord) -> None:
        parent.next.append(record)
        self._structures.grew()
        if self._tip is parent:
            self._count(record)
            self._tip = record

    def counts_at(self, parent: OpRecord) -> Counter[tuple[str, str]]:
        """How many ops of each scope and type ran in this step up to ``parent``."""
        self._catch_up(parent)
        return Counter(self._counts)

    def learn_graph(
        self,
        parent: OpRecord,
        graph: Any,
        info: OpInfo,
        tensors: list[torch.Tensor],
        keys: list[int],
        frame: FrameType,
    ) -> OpRecord:
        """Make a record for the run of a compiled graph on ``tensors``.

        The caller fills in its ops and calls `add_graph`.
        """
        self._catch_up(parent)
        record = OpRecord(parent, graph, info, self._tables.scope)
        self._wire(record, tensors, keys, frame)
        return record

    def add_graph(self, record: OpRecord) -> None:
        """Put the record of a compiled graph, with its ops, into the tree."""
        parent = record.parent
        assert parent is not None
        record.node = record.inner[-1].node
        record.order = record.inner[-1].order
        self._append(parent, record)

    def _catch_up(self, parent: OpRecord) -> None:
        """Count what ran in this step up to ``parent``, unless it was the last op learned."""
        if self._tip is parent:
            return
        self._counts.clear()
        self._used.clear()
        for record in parent.path():
            self._count(record)
        self._tip = parent

    def _count(self, record: OpRecord) -> None:
        for op in record.inner or (record,):
            self._counts[(op.node.scope, op.info.type)] += 1
        self._used.update(leaf for _, leaf, _ in record.leaves)

    # ---------------------------------------------------------------- wiring

    def _wire(
        self, record: OpRecord, tensors: list[torch.Tensor], keys: list[int], frame: FrameType
    ) -> None:
        refs: list[TensorRef] = []
        sources: list[TensorRef | None] = []
        leaves: list[tuple[int, StepInput, int]] = []
        assert record.parent is not None
        used = self._used
        is_fresh = record.info.type == LIFTING
        for slot, (tensor, key) in enumerate(zip(tensors, keys, strict=True)):
            entry = self._tables.entry(key)
            if entry is None:
                leaf = self._inputs.leaves.leaf_for(
                    tensor, key, frame, used.__contains__, is_fresh=is_fresh
                )
                self._inputs.enter(leaf.ref, key, tensor)
                entry = self._tables.entry(key)
                assert entry is not None
            met = entry[0].leaf
            if met is not None and met not in used:
                used.add(met)
                leaves.append((slot, met, record.parent.order + 1 + len(leaves)))
            refs.append(entry[0])
            sources.append(self._inputs.exact(tensor, entry))
        # They count when the op has run.
        used.difference_update(leaf for _, leaf, _ in leaves)
        record.in_refs = tuple(refs)
        record.sources = tuple(sources)
        record.filled = tuple(map(is_filled, sources, refs))
        record.leaves = tuple(leaves)

    # --------------------------------------------------------------- naming

    def locate(self, caller: FrameType, node: Any, forward: Forward | None) -> Located:
        """Where the op is that ``caller`` runs now; ``node`` is the autograd node that runs, and
        ``forward`` the scope and lines of the forward op that caused it, if there is one."""
        if self.ran_compiled is False:
            self.ran_compiled = private.is_called_compiled(caller)
        depth, frame = find_user_frame(caller)
        here = self._stack.scope_at(caller)
        scope, sources, is_caused = self._where(here, frame, caller, node, forward)
        matched: OpScope = self._tables.scope
        is_seed = scope.phase != "backward" and begins_backward(caller)
        if is_seed:
            # backward() makes the first gradient before the engine runs. It is a backward op, but
            # ``matched`` stays the program's scope.
            scope = self._scopes.backward_of(scope.name)
        elif scope is not here:
            matched = scope
        if frame is not None and (is_seed or scope.phase != "backward"):
            line: tuple[int, CodeType | None, int] = depth + 1, frame.f_code, frame.f_lasti
        else:
            line = 0, None, -1
        return Located(scope, matched, *line, sources, is_caused)

    def _where(
        self,
        scope: OpScope,
        frame: FrameType | None,
        caller: FrameType,
        node: Any,
        forward: Forward | None,
    ) -> tuple[OpScope, tuple[Source, ...], bool]:
        """The scope and lines of an op, and whether these are those of the forward op."""
        if node is None:
            sources = (*joined_sources(self.traced, stack_of(frame)), *self.outer)
            return scope, sources, False
        if scope is not self._scopes.default and runs_module(caller):
            # Activation checkpointing: a module's forward, run again inside backward.
            again = self._scopes.scope(f"{RECOMPUTED}{scope.name}", "backward")
            return again, stack_of(frame or above_engine(caller)), False
        if forward is not None:
            name, lines = forward
            sources = stack_of(frame) if frame is not None else lines
            return self._scopes.backward_of(name), sources, True
        variable = getattr(node, "variable", None)
        owner = None
        if isinstance(variable, torch.Tensor):
            owner = self._inputs.leaves.parameter_scope(variable)
        sources = stack_of(frame or above_engine(caller))
        return self._scopes.backward_of(owner or ROOT), sources, False

    def _cause(self, node: Any) -> OpRecord | None:
        try:
            number = node._sequence_nr() + 1
        except (AttributeError, RuntimeError) as error:
            pass_on(error)
            return None
        # A node that accumulates a gradient has the largest possible number.
        return self._tables.cause(number) if number < _NO_SEQUENCE else None


def _placements(io: str, tensors: Sequence[torch.Tensor]) -> Iterator[tuple[str, str]]:
    """How the distributed ones among ``tensors`` are distributed, as attributes of an op."""
    for slot, tensor in enumerate(tensors):
        placement = placement_of(tensor)
        if placement is not None:
            yield f"placement.{io}.{slot}", placement


def _edges(record: OpRecord, tensors: list[torch.Tensor]) -> tuple[Edge, ...]:
    """The edges to the ops and step inputs that the inputs of ``record`` come from."""
    refs = [source or ref for source, ref in zip(record.sources, record.in_refs, strict=True)]
    return tuple(
        Edge(ref.producer.name, ref.slot, spec_of(tensor))
        for ref, tensor in zip(refs, tensors, strict=True)
    )
