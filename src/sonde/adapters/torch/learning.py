"""What is found out about an op the first time it runs in a structure: name, source, edges."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from types import FrameType
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.leaves import LeafBook, geometry, spec_of, storage_key
from sonde.adapters.torch.memory import Tables
from sonde.adapters.torch.schema import OpInfo, op_info
from sonde.adapters.torch.scopes import RECOMPUTED, ROOT, Scope, ScopeBook
from sonde.adapters.torch.sources import (
    above_engine,
    begins_backward,
    find_place,
    joined_sources,
    runs_module,
    stack_of,
)
from sonde.adapters.torch.structure import ALIAS, FRESH, WRITTEN, Leaf, Record, Ref, Structures
from sonde.adapters.torch.views import attributes_of
from sonde.core.graph import GRADIENTS, Edge, OpNode, Source

_NO_SEQUENCE = 1 << 62


class Learner:
    """Makes records. Shares the tables of the running step with the Observer that owns it.

    ``foreign`` are the storages that may change without an op; ``bound`` the storages that stand
    for the leaves of this step. ``traced`` are the lines that what runs was traced from, where the
    frames do not show them.
    """

    def __init__(
        self, scopes: ScopeBook, structures: Structures, tables: Tables, foreign: set[int]
    ) -> None:
        self._scopes = scopes
        self._structures = structures
        self._tables = tables
        self._foreign = foreign
        self.bound: dict[Ref, int] = {}
        # Whether an op was met inside what torch.compile returned; None: nobody asks.
        self.ran_compiled: bool | None = None
        self.traced: tuple[Source, ...] = ()
        self._is_reshaped = False
        self._tip: Record | None = None
        self._counts: Counter[tuple[str, str]] = Counter()
        self._used: set[Leaf] = set()
        self.leaves = LeafBook(scopes)
        self._lasting: dict[int, tuple[Ref, weakref.ref[torch.UntypedStorage]]] = {}

    def begin_step(self) -> None:
        """Parameters and constants met in earlier steps are known from the start."""
        for key, (ref, _) in list(self._lasting.items()):
            self._tables.put(WRITTEN, ref, key, 0)

    def end_step(self) -> None:
        self._tip = None
        self._is_reshaped = False
        self.bound.clear()
        self.leaves.forget_names()

    def close(self) -> None:
        self._lasting.clear()

    def enter(self, ref: Ref, key: int, tensor: torch.Tensor) -> None:
        """A tensor from outside is met for the first time in this step."""
        self._tables.put(WRITTEN, ref, key, tensor._cdata)
        self.bound[ref] = key
        shape = geometry(tensor)
        if shape != ref.geometry:
            ref.geometry = shape
            self._is_reshaped = True
        if key < 0:
            self._tables.watch(key, tensor)
            return
        storage = tensor.untyped_storage()
        if ref.leaf is not None and ref.leaf.is_lasting:
            self._lasting[key] = (ref, weakref.ref(storage, lambda _: self._lose(key)))
            return
        self._tables.watch(key, storage)
        if not storage.resizable():
            # Memory that somebody else made, numpy say, who may write to it any time.
            self._foreign.add(key)

    def _lose(self, key: int) -> None:
        self._lasting.pop(key, None)
        self._tables.drop(key)

    def learn(
        self,
        parent: Record,
        scope: Scope,
        func: Any,
        tensors: list[torch.Tensor],
        keys: list[int],
        args: Sequence[Any],
        kwargs: dict[str, Any] | None,
        caller: FrameType,
    ) -> Record:
        """A record for an op about to run after ``parent``; its outputs are learned afterwards."""
        self._catch_up(parent)
        if self.ran_compiled is False:
            self.ran_compiled = private.is_called_compiled(caller)
        info = op_info(func)
        place, frame = find_place(caller)
        record = Record(parent, func, info, scope)
        scope, phase, sources, cause = self._where(scope, frame, caller)
        is_seed = phase != "backward" and begins_backward(caller)
        if is_seed:  # The engine does not run yet: it is met in the scope the program is in.
            scope, phase = self._scopes.scope(f"{GRADIENTS}{scope.name}", "backward"), "backward"
        else:
            record.scope = scope
        if place is not None and (is_seed or phase != "backward"):
            record.depth = place.depth + 1
            record.code = place.code
            record.last = place.last
        self._wire(record, tensors, keys, frame or caller)
        attributes = attributes_of(info.arguments, args, kwargs)
        if cause is not None:
            attributes = (*attributes, ("forward", cause.node.name))
        record.node = OpNode(
            name=f"{scope.name}/{info.type}-op{self._counts[(scope.name, info.type)]}",
            type=info.type,
            scope=scope.name,
            phase=phase,
            inputs=tuple(
                Edge((source or ref).producer.name, (source or ref).slot, spec_of(tensor))
                for tensor, source, ref in zip(tensors, record.sources, record.in_refs, strict=True)
            ),
            attributes=attributes,
            sources=sources,
        )
        record.writes = _written_slots(info, args, kwargs)
        return record

    def learn_outputs(
        self,
        record: Record,
        results: list[torch.Tensor],
        tensors: list[torch.Tensor],
        keys: list[int],
    ) -> Record:
        """Complete a new record, or find or make the one for this number of outputs.

        ``results`` is extended by the inputs the op wrote to without returning them.
        """
        parent = record.parent
        assert parent is not None
        if record.order >= 0:
            del results[len(results) - len(record.returned) :]
            for sibling in parent.next:
                if _is_alike(sibling, record) and (
                    len(sibling.outs) - len(sibling.returned) == len(results)
                ):
                    results.extend(tensors[slot] for slot in sibling.returned)
                    return sibling
            record = _twin(record)
            self._tip = None
        returned = {tensor._cdata for tensor in results}
        record.returned = tuple(
            slot for slot in record.writes if tensors[slot]._cdata not in returned
        )
        results.extend(tensors[slot] for slot in record.returned)
        written = {tensors[slot]._cdata for slot in record.writes}
        outs: list[tuple[int, Ref]] = []
        changed: set[int] = set()
        for slot, tensor in enumerate(results):
            key = storage_key(tensor)
            known = key in keys or key in changed or self._tables.entry(key) is not None
            # Of several tensors over one memory the first stands for the change of all of it.
            is_change = tensor._cdata in written and key not in changed
            kind = WRITTEN if is_change else ALIAS if known else FRESH
            changed.add(key)
            ref = Ref(record, slot, geometry(tensor))
            inputs = [number for number, other in enumerate(keys) if other == key]
            ref.is_loose = (
                not record.info.fills
                or slot in record.info.workspaces
                or (kind == ALIAS and not all(record.filled[number] for number in inputs))
            )
            if kind == WRITTEN and not _is_whole(tensor):
                befores = [record.in_refs[number] for number in inputs]
                ref.has_gaps = any(before.is_loose or before.has_gaps for before in befores)
            outs.append((kind, ref))
        record.outs = tuple(outs)
        source = record.sources[0] if record.sources else None
        if source is not None and len(outs) == 1 and record.info.rearranges:
            outs[0][1].values = source.values
        record.node = OpNode(
            name=record.node.name,
            type=record.node.type,
            scope=record.node.scope,
            phase=record.node.phase,
            inputs=record.node.inputs,
            outputs=tuple(spec_of(tensor) for tensor in results),
            attributes=record.node.attributes,
            sources=record.node.sources,
        )
        record.order = parent.order + 1 + len(record.leaves)
        record.wants_generation = -1
        parent.next.append(record)
        self._structures.grew()
        if self._tip is parent:
            self._count(record)
            self._tip = record
        return record

    def counts_at(self, parent: Record) -> Counter[tuple[str, str]]:
        """How many ops of each scope and type ran in this step up to ``parent``."""
        self._catch_up(parent)
        return Counter(self._counts)

    def learn_graph(
        self,
        parent: Record,
        scope: Scope,
        graph: Any,
        info: OpInfo,
        tensors: list[torch.Tensor],
        keys: list[int],
        frame: FrameType,
    ) -> Record:
        """A record for the run of a compiled graph on ``tensors``; its ops are the caller's part.

        ``add_graph`` makes it known.
        """
        self._catch_up(parent)
        record = Record(parent, graph, info, scope)
        self._wire(record, tensors, keys, frame)
        return record

    def add_graph(self, record: Record) -> None:
        """The ops of a compiled graph are known: they may run in later steps, too."""
        parent = record.parent
        assert parent is not None
        record.node = record.inner[-1].node
        record.order = record.inner[-1].order
        parent.next.append(record)
        self._structures.grew()
        self._count(record)
        self._tip = record

    def _catch_up(self, parent: Record) -> None:
        """Count what ran in this step up to ``parent``, unless it was the last op learned."""
        if self._tip is parent:
            return
        self._counts.clear()
        self._used.clear()
        for record in parent.path():
            self._count(record)
        self._tip = parent

    def _count(self, record: Record) -> None:
        for op in record.inner or (record,):
            self._counts[(op.node.scope, op.info.type)] += 1
        self._used.update(leaf for _, leaf, _ in record.leaves)

    # ---------------------------------------------------------------- wiring

    def _wire(
        self, record: Record, tensors: list[torch.Tensor], keys: list[int], frame: FrameType
    ) -> None:
        refs: list[Ref] = []
        sources: list[Ref | None] = []
        leaves: list[tuple[int, Leaf, int]] = []
        assert record.parent is not None
        used = set(self._used)
        for slot, (tensor, key) in enumerate(zip(tensors, keys, strict=True)):
            entry = self._tables.entry(key)
            if entry is None:
                self.enter(self.leaves.leaf_for(tensor, key, frame, used).ref, key, tensor)
                entry = self._tables.entry(key)
                assert entry is not None
            leaf = entry[0].leaf
            if leaf is not None and leaf not in used:
                used.add(leaf)
                leaves.append((slot, leaf, record.parent.order + 1 + len(leaves)))
            refs.append(entry[0])
            sources.append(self.exact(tensor, entry))
        record.in_refs = tuple(refs)
        record.sources = tuple(sources)
        record.filled = tuple(map(_is_filled, sources, refs))
        record.leaves = tuple(leaves)

    def exact(self, tensor: torch.Tensor, entry: list[Ref]) -> Ref | None:
        """The very tensor among those over its memory that are up to date, if it is one of them.

        First by identity; else by geometry: autograd hands saved tensors back as new objects. In a
        step whose shapes are not those that were learned identity alone counts.
        """
        shape = geometry(tensor)
        known = self._tables.tensor(tensor._cdata)
        is_known = known is not None and any(ref is known for ref in entry)
        if known is not None and is_known and (known.geometry == shape or self._is_reshaped):
            return known
        for ref in reversed(entry):
            if ref.geometry == shape:
                return ref
        return None

    # --------------------------------------------------------------- naming

    def _where(
        self, scope: Scope, frame: FrameType | None, caller: FrameType
    ) -> tuple[Scope, Any, tuple[Source, ...], Record | None]:
        """Scope, phase, sources, and in backward the forward op that caused this one."""
        node = private.current_autograd_node()
        if node is None:
            return scope, scope.phase, joined_sources(self.traced, stack_of(frame)), None
        if scope is not self._scopes.default and runs_module(caller):
            # Activation checkpointing: a module's forward, run again inside backward.
            name = f"{RECOMPUTED}{scope.name}"
            sources = stack_of(frame or above_engine(caller))
            return self._scopes.scope(name, "backward"), "backward", sources, None
        cause = self._cause(node)
        if cause is not None:
            base = cause.node.scope.removeprefix(RECOMPUTED)
            name = base if base.startswith(GRADIENTS) else f"{GRADIENTS}{base}"
            sources = stack_of(frame) if frame is not None else cause.node.sources
            return self._scopes.scope(name, "backward"), "backward", sources, cause
        owner = self._owner(node)
        sources = stack_of(frame or above_engine(caller))
        return self._scopes.scope(f"{GRADIENTS}{owner}", "backward"), "backward", sources, None

    def _cause(self, node: Any) -> Record | None:
        try:
            number = node._sequence_nr() + 1
        except (AttributeError, RuntimeError):
            return None
        # A node that accumulates a gradient has the largest number there is.
        return self._tables.cause(number) if number < _NO_SEQUENCE else None

    def _owner(self, node: Any) -> str:
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            return self.leaves.parameter_scope(variable) or ROOT
        return ROOT


def _written_slots(
    info: OpInfo, args: Sequence[Any], kwargs: dict[str, Any] | None
) -> tuple[int, ...]:
    """The slots, among the flattened tensor inputs, of the arguments the op writes to."""
    if not info.writes:
        return ()
    slots: list[int] = []
    slot = 0
    named = [
        (info.arguments[position] if position < len(info.arguments) else "", value)
        for position, value in enumerate(args)
    ]
    named.extend((kwargs or {}).items())
    for name, value in named:
        count = _count_tensors(value)
        if name in info.writes:
            slots.extend(range(slot, slot + count))
        slot += count
    return tuple(slots)


def _is_filled(source: Ref | None, memory: Ref) -> bool:
    """Whether an input, exactly ``source`` or else in ``memory``, has been filled by ops."""
    if source is not None:
        return not source.is_loose
    return not memory.is_loose and not memory.has_gaps


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` covers all of its memory, as far as sizes tell."""
    try:
        return tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes()
    except (NotImplementedError, RuntimeError):
        return True


def _count_tensors(value: Any) -> int:
    if isinstance(value, (list, tuple)):
        return sum(_count_tensors(item) for item in value)
    return int(isinstance(value, torch.Tensor))


def _is_alike(one: Record, other: Record) -> bool:
    """Whether two records differ in their outputs at most."""
    return (
        one.func is other.func
        and one.scope is other.scope
        and (one.depth, one.code, one.last) == (other.depth, other.code, other.last)
        and one.in_refs == other.in_refs
        and one.sources == other.sources
    )


def _twin(record: Record) -> Record:
    twin = Record(record.parent, record.func, record.info, record.scope)
    twin.depth, twin.code, twin.last = record.depth, record.code, record.last
    twin.in_refs, twin.sources, twin.leaves = record.in_refs, record.sources, record.leaves
    twin.writes, twin.node, twin.filled = record.writes, record.node, record.filled
    return twin
