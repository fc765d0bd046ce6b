"""What all runs of an op from one place of the program have in common.

The native matcher uses it for steps that do not repeat (``native/match/call_site.h``): an op that
ran before from the same line, at another place of a step, is not learned again. Its record is made
later, and only if something asks for it. docs/capture.md explains when that is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.input_matching import InputMatcher
from sonde.adapters.torch.eager.naming.scope_stack import ScopeStack
from sonde.adapters.torch.eager.naming.scopes import OpScope
from sonde.adapters.torch.eager.naming.source_lines import find_user_frame
from sonde.adapters.torch.eager.op_learning import LIFTING, Learner
from sonde.adapters.torch.eager.op_outputs import argument_slots, final_attributes, is_filled
from sonde.adapters.torch.eager.op_schema import (
    OpInfo,
    attribute_text,
    is_bookkeeping,
    named_arguments,
    op_info,
    tensors_in,
)
from sonde.adapters.torch.eager.op_tree import OpRecord, StepInput, TensorRef
from sonde.adapters.torch.eager.step_inputs import spec, storage_key
from sonde.core.graph import FORWARD_OP, Edge, OpNode, Phase, Source
from sonde.watch.op_types import ALLOCATING, OVERWRITES, OVERWRITING, UNFILLED, slots_text

_NUMBER = re.compile(r"-\d+$")

Spec = tuple[torch.dtype, tuple[int, ...]]


@dataclass(slots=True, eq=False)
class CallSite:
    """An op called from one place: the same lines, module and autograd state.

    ``inputs`` are the names of step inputs that are not lasting, by slot and without the number
    that tells several of one step apart.
    """

    func: Any
    info: OpInfo
    scope: OpScope
    node_scope: str
    phase: Phase
    depth: int
    code: Any
    last: int
    sources: tuple[Source, ...]
    writes: tuple[int, ...]
    overwrites: tuple[int, ...]
    inputs: dict[int, str] = field(default_factory=dict)

    @property
    def fills(self) -> bool:
        return self.info.fills

    @property
    def rearranges(self) -> bool:
        return self.info.rearranges

    @property
    def workspaces(self) -> tuple[int, ...]:
        return self.info.workspaces


@dataclass(slots=True, eq=False)
class CallSites:
    """Answers the native matcher's questions about call sites. Used from the training thread."""

    _tables: Any
    _learner: Learner
    _inputs: InputMatcher
    _scopes: ScopeStack
    _find_wants: Callable[[OpRecord], None]

    def describe(self, record: OpRecord, known: CallSite | None) -> CallSite | None:
        """The call site of an op that was just learned; None if its ops must all be learned."""
        if record.info.is_collective or record.inner or self._learner.traced:
            return None
        names = [name for name, _ in record.node.attributes]
        if UNFILLED in names or any(name.startswith("placement.") for name in names):
            return None
        site = known or CallSite(
            record.func,
            record.info,
            record.scope,
            record.node.scope,
            record.node.phase,
            record.depth,
            record.code,
            record.last,
            record.node.sources,
            record.writes,
            record.overwrites,
        )
        for slot, leaf, _ in record.leaves:
            if not leaf.is_lasting and leaf.node.kind != "parameter" and "." not in leaf.node.name:
                site.inputs.setdefault(slot, _NUMBER.sub("", leaf.node.name))
        return site

    def describe_new(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any] | None,
        forward: CallSite | None,
    ) -> CallSite | None:
        """The call site of an op about to run from a new place; None if it must be learned."""
        caller = sys._getframe(1)
        info = op_info(func)
        with private.without_torch_functions():
            if (
                is_bookkeeping(func)
                or private.is_tracing()
                or self._learner.traced
                or info.is_collective
                or not self._is_memory_filled(info, args, kwargs)
                or self._scopes.drop_stale(caller)
            ):
                return None
            lines = None if forward is None else (forward.node_scope, forward.sources)
            place = self._learner.locate(caller, private.current_autograd_node(), lines)
        return CallSite(
            func,
            info,
            place.matched,
            place.scope.name,
            place.scope.phase,
            place.depth,
            place.code,
            place.last,
            place.sources,
            argument_slots(info.writes, info, args, kwargs),
            argument_slots(info.overwrites, info, args, kwargs),
        )

    def _is_memory_filled(
        self, info: OpInfo, args: Sequence[Any], kwargs: dict[str, Any] | None
    ) -> bool:
        """Whether the op will return no memory that nothing has been written to, but for types of
        which readers of the graph know it."""
        if not info.fills and info.type not in ALLOCATING:
            return False
        tensors = tensors_in((*args, *kwargs.values()) if kwargs else args)
        entries = [self._tables.entry(storage_key(tensor)) or () for tensor in tensors]
        return not any(ref.is_unfilled or ref.has_gaps for entry in entries for ref in entry)

    def meet_input(self, site: CallSite, slot: int, tensor: torch.Tensor, key: int) -> bool:
        """Enter a tensor that is new in this step. Where the call site has met a tensor in this
        slot before that no module or optimizer holds, it has the same name; others are looked up.
        """
        met, inputs = self._tables.met_leaves, self._inputs

        def is_used(other: StepInput) -> bool:
            return other in met or inputs.is_bound(other)

        text = site.inputs.get(slot)
        leaf = None
        if text is not None:
            leaf = inputs.leaves.unlisted(tensor, key, text, is_used)
        if leaf is None:
            caller = sys._getframe(1)
            frame = find_user_frame(caller)[1] or caller
            with private.without_torch_functions():
                leaf = inputs.leaves.leaf_for(
                    tensor, key, frame, is_used, is_fresh=site.info.type == LIFTING
                )
        inputs.enter(leaf.ref, key, tensor)
        return True

    def complete(
        self,
        native: Any,
        site: CallSite,
        parent: OpRecord,
        cause: OpRecord | None,
        arguments: tuple[tuple[Any, ...], dict[str, Any] | None],
        in_refs: tuple[TensorRef, ...],
        sources: tuple[TensorRef | None, ...],
        in_specs: tuple[Spec, ...],
        outs: tuple[tuple[int, TensorRef], ...],
        out_specs: tuple[Spec, ...],
        returned: tuple[int, ...],
        leaves: tuple[tuple[int, StepInput], ...],
    ) -> OpRecord:
        """Make the record of an op that ran with a provisional node, ``native``."""
        record = OpRecord(parent, site.func, site.info, site.scope)
        record.depth, record.code, record.last = site.depth, site.code, site.last
        record.in_refs, record.sources, record.outs = in_refs, sources, outs
        record.filled = tuple(map(is_filled, sources, in_refs))
        record.writes, record.returned = site.writes, returned
        record.overwrites = site.overwrites
        record.leaves = tuple(
            (slot, leaf, parent.order + 1 + number) for number, (slot, leaf) in enumerate(leaves)
        )
        for _, ref in outs:
            ref.owner = record
        node = OpNode(
            name=self._learner.next_name(parent, site.node_scope, site.info.type),
            type=site.info.type,
            scope=site.node_scope,
            phase=site.phase,
            inputs=_edges(in_refs, sources, in_specs),
            outputs=tuple(spec(*each) for each in out_specs),
            attributes=_attributes(site, arguments, cause),
            sources=site.sources,
        )
        record.node = node
        record.node = replace(node, attributes=final_attributes(record))
        record.native = native
        parent.native.add(native)
        self._learner.add(record)
        self._find_wants(record)
        return record


def _attributes(
    site: CallSite,
    arguments: tuple[tuple[Any, ...], dict[str, Any] | None],
    cause: OpRecord | None,
) -> tuple[tuple[str, str], ...]:
    attributes = tuple(
        (name, attribute_text(value))
        for name, value in named_arguments(site.info, *arguments)
        if value is not ...
    )
    if site.overwrites and site.info.type not in OVERWRITING:
        attributes = (*attributes, (OVERWRITES, slots_text(site.overwrites)))
    if cause is not None:
        attributes = (*attributes, (FORWARD_OP, cause.node.name))
    return attributes


def _edges(
    in_refs: tuple[TensorRef, ...],
    sources: tuple[TensorRef | None, ...],
    specs: tuple[Spec, ...],
) -> tuple[Edge, ...]:
    refs = [source or ref for source, ref in zip(sources, in_refs, strict=True)]
    return tuple(
        Edge(ref.producer.name, ref.slot, spec(*each))
        for ref, each in zip(refs, specs, strict=True)
    )
