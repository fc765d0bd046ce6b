"""Makes records of the ops of a compiled graph: names, scopes, phases, edges, as in eager mode."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch.compiled.graph import AotGraph, AotOp, Family, Operand
from sonde.adapters.torch.eager.dispatch_mode import Observer
from sonde.adapters.torch.eager.naming.scopes import RECOMPUTED, ROOT, OpScope, ScopeRegistry
from sonde.adapters.torch.eager.naming.source_lines import find_user_frame, joined_sources, stack_of
from sonde.adapters.torch.eager.op_schema import OpInfo
from sonde.adapters.torch.eager.op_tree import FRESH, OpRecord, TensorRef
from sonde.adapters.torch.eager.step_inputs import spec_of
from sonde.core.graph import COMPILED, FORWARD_OP, Edge, OpNode, Source


@dataclass(frozen=True, slots=True, eq=False)
class TracedPlace:
    """Where an op was traced: the modules it ran in, outermost first, and the lines."""

    modules: tuple[weakref.ref[nn.Module], ...]
    sources: tuple[Source, ...]


_INFO = OpInfo("compiled_graph", (), frozenset(), False)


@dataclass(slots=True, eq=False)
class GraphLearner:
    """Makes records of compiled graphs. Used from the training thread only."""

    _observer: Observer
    _registry: ScopeRegistry
    _forwards: dict[Family, list[OpRecord]] = field(default_factory=dict)

    def begin_step(self) -> None:
        self._forwards.clear()

    def record_for(
        self, graph: AotGraph, tensors: list[torch.Tensor], keys: list[int], caller: FrameType
    ) -> OpRecord:
        """The record for a run of ``graph`` on ``tensors`` now, known or new."""
        observer = self._observer
        scope: OpScope = observer.tables.scope
        known = (
            record
            for record in observer.last.next
            if record.func is graph
            and (graph.is_backward or record.scope is scope)
            and len(record.in_refs) == len(keys)
            and observer.inputs.matches(record, tensors, keys)
        )
        found = next(known, None) or self._learn(graph, tensors, keys, caller)
        if not graph.is_backward:
            self._forwards.setdefault(graph.family, []).append(found)
        return found

    def draft(self, graph: AotGraph, caller: FrameType) -> list[OpNode]:
        """The nodes that the ops of ``graph`` would get if it ran now, without inputs."""
        observer = self._observer
        counts = observer.learner.counts_at(observer.last)
        forwards = self._forwards.get(graph.family)
        cause = forwards[-1] if forwards else None
        outer = () if graph.is_backward else stack_of(find_user_frame(caller)[1])
        return [self._node(graph, op, counts, cause, outer) for op in graph.ops]

    def _learn(
        self, graph: AotGraph, tensors: list[torch.Tensor], keys: list[int], caller: FrameType
    ) -> OpRecord:
        learner = self._observer.learner
        nodes = self.draft(graph, caller)
        frame = find_user_frame(caller)[1] or caller
        record = learner.learn_graph(self._observer.last, graph, _INFO, tensors, keys, frame)
        assert record.parent is not None
        order = record.parent.order + 1 + len(record.leaves)
        inner: list[OpRecord] = []
        for op, node in zip(graph.ops, nodes, strict=True):
            made = OpRecord(None, op.target, op.info, self._registry.scope(node.scope, node.phase))
            made.order = order + op.number
            made.outs = tuple(
                (FRESH, _ref(made, slot, op, inner, record)) for slot in range(len(op.outputs))
            )
            made.node = replace(node, inputs=_edges(op, inner, record, tensors))
            inner.append(made)
        record.inner = tuple(inner)
        learner.add_graph(record)
        return record

    # --------------------------------------------------------------- naming

    def _node(
        self,
        graph: AotGraph,
        op: AotOp,
        counts: Counter[tuple[str, str]],
        forward: OpRecord | None,
        outer: tuple[Source, ...],
    ) -> OpNode:
        cause = self._cause(graph, op, forward)
        scope = self._scope(graph, op, cause)
        number = counts[(scope.name, op.info.type)]
        counts[(scope.name, op.info.type)] += 1
        attributes = [*op.attributes, (COMPILED, "True")]
        if op.original is not None:
            attributes.append(("original", op.original))
        if cause is not None and not op.is_recomputed:
            attributes.append((FORWARD_OP, cause.name))
        return OpNode(
            name=f"{scope.name}/{op.info.type}-op{number}",
            type=op.info.type,
            scope=scope.name,
            phase=scope.phase,
            outputs=op.outputs,
            attributes=tuple(attributes),
            sources=cause.sources if cause is not None else joined_sources(op.sources, outer),
        )

    def _cause(self, graph: AotGraph, op: AotOp, forward: OpRecord | None) -> OpNode | None:
        """The forward op that this op of a backward graph belongs to, or that it recomputes."""
        if not graph.is_backward or forward is None or op.sequence is None:
            return None
        number = graph.family.by_sequence.get(op.sequence)
        return forward.inner[number].node if number is not None else None

    def _scope(self, graph: AotGraph, op: AotOp, cause: OpNode | None) -> OpScope:
        inside = self.module_scope(op.modules)
        if not graph.is_backward:
            here = self._observer.scopes.scope_at(sys._getframe(1))
            if graph.is_optimizer and here.phase != "optimizer":
                return self._registry.scope(f"{ROOT}/optimizer", "optimizer")
            return inside or here
        found = inside.name if inside is not None else cause.scope if cause is not None else ROOT
        if op.is_recomputed:
            return self._registry.scope(f"{RECOMPUTED}{found.removeprefix(RECOMPUTED)}", "backward")
        return self._registry.backward_of(found)

    def module_scope(self, modules: Sequence[weakref.ref[nn.Module]]) -> OpScope | None:
        """The scope of the innermost of ``modules``, named as if they were called now."""
        caller: nn.Module | None = self._observer.scopes.module
        scope: OpScope | None = None
        for reference in modules:
            module = reference()
            if module is not None:
                scope = self._registry.of_module(module, caller)
                caller = module
        return scope


def _ref(made: OpRecord, slot: int, op: AotOp, inner: list[OpRecord], graph: OpRecord) -> TensorRef:
    ref = TensorRef(made, slot, ())
    ref.is_unfilled = not op.info.fills or slot in op.info.workspaces
    source = ref_of(op.inputs[0], inner, graph) if op.inputs else None
    if source is not None and op.info.rearranges and len(op.outputs) == 1:
        ref.values = source.values
    return ref


def ref_of(operand: Operand | None, inner: Any, graph: OpRecord) -> TensorRef | None:
    """The reference of an operand's contents; None where it is not known exactly."""
    if operand is None:
        return None
    if operand.op is None:
        return graph.sources[operand.slot] if operand.slot < len(graph.sources) else None
    outs = inner[operand.op].outs
    return outs[operand.slot][1] if operand.slot < len(outs) else None


def _edges(
    op: AotOp, inner: list[OpRecord], graph: OpRecord, tensors: list[torch.Tensor]
) -> tuple[Edge, ...]:
    found: list[Edge] = []
    for operand, spec in zip(op.inputs, op.specs, strict=True):
        if operand is None:
            found.append(Edge(None, 0, spec))
        elif operand.op is not None:
            found.append(Edge(inner[operand.op].node.name, operand.slot, spec))
        else:
            ref = graph.sources[operand.slot] or graph.in_refs[operand.slot]
            found.append(Edge(ref.producer.name, ref.slot, spec_of(tensors[operand.slot])))
    return tuple(found)
