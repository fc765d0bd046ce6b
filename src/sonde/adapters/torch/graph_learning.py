"""From the ops of a compiled graph to records: names, scopes, phases, edges, as in eager mode."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch.aot_graph import AotGraph, AotOp, Family, Operand
from sonde.adapters.torch.eager import Observer
from sonde.adapters.torch.leaves import spec_of
from sonde.adapters.torch.schema import OpInfo
from sonde.adapters.torch.scopes import RECOMPUTED, ROOT, Scope, ScopeBook
from sonde.adapters.torch.sources import find_place, joined_sources, stack_of
from sonde.adapters.torch.structure import FRESH, Record, Ref
from sonde.core.graph import GRADIENTS, Edge, OpNode, Source


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where an op was traced: the modules it ran in, outermost first, and the lines."""

    modules: tuple[weakref.ref[nn.Module], ...]
    sources: tuple[Source, ...]


_INFO = OpInfo("compiled_graph", "compiled_graph", (), frozenset(), False)


class GraphLearner:
    """Makes records of compiled graphs. Used from the training thread only."""

    def __init__(self, observer: Observer, book: ScopeBook) -> None:
        self._observer = observer
        self._book = book
        self._forwards: dict[Family, list[Record]] = {}

    def begin_step(self) -> None:
        self._forwards.clear()

    def record_for(
        self, graph: AotGraph, tensors: list[torch.Tensor], keys: list[int], caller: FrameType
    ) -> Record:
        """The record of ``graph`` run now on ``tensors``, known or learned."""
        observer = self._observer
        scope: Scope = observer.tables.scope
        found: Record | None = None
        for record in observer.last.next:
            if (
                record.func is graph
                and (graph.is_backward or record.scope is scope)
                and len(record.in_refs) == len(keys)
                and observer.takes(record, tensors, keys)
            ):
                found = record
                break
        if found is None:
            found = self._learn(graph, scope, tensors, keys, caller)
        if not graph.is_backward:
            self._forwards.setdefault(graph.family, []).append(found)
        return found

    def draft(self, graph: AotGraph, caller: FrameType) -> list[OpNode]:
        """The ops of ``graph``, were it run now, without their inputs."""
        observer = self._observer
        counts = observer.learner.counts_at(observer.last)
        forwards = self._forwards.get(graph.family)
        cause = forwards[-1] if forwards else None
        outer = () if graph.is_backward else stack_of(find_place(caller)[1])
        return [self._node(graph, op, counts, cause, outer) for op in graph.ops]

    def _learn(
        self,
        graph: AotGraph,
        scope: Scope,
        tensors: list[torch.Tensor],
        keys: list[int],
        caller: FrameType,
    ) -> Record:
        learner = self._observer.learner
        nodes = self.draft(graph, caller)
        record = learner.learn_graph(
            self._observer.last, scope, graph, _INFO, tensors, keys, find_place(caller)[1] or caller
        )
        assert record.parent is not None
        order = record.parent.order + 1 + len(record.leaves)
        inner: list[Record] = []
        for op, node in zip(graph.ops, nodes, strict=True):
            made = Record(None, op.target, op.info, self._book.scope(node.scope, node.phase))
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
        forward: Record | None,
        outer: tuple[Source, ...],
    ) -> OpNode:
        cause = self._cause(graph, op, forward)
        scope = self._scope(graph, op, cause)
        number = counts[(scope.name, op.info.type)]
        counts[(scope.name, op.info.type)] += 1
        attributes = list(op.attributes)
        if op.original is not None:
            attributes.append(("original", op.original))
        if cause is not None and not op.is_recomputed:
            attributes.append(("forward", cause.name))
        return OpNode(
            name=f"{scope.name}/{op.info.type}-op{number}",
            type=op.info.type,
            scope=scope.name,
            phase=scope.phase,
            outputs=op.outputs,
            attributes=tuple(attributes),
            sources=cause.sources if cause is not None else joined_sources(op.sources, outer),
        )

    def _cause(self, graph: AotGraph, op: AotOp, forward: Record | None) -> OpNode | None:
        """The forward op that caused this one of a backward graph, or that it does again."""
        if not graph.is_backward or forward is None or op.sequence is None:
            return None
        number = graph.family.by_sequence.get(op.sequence)
        return forward.inner[number].node if number is not None else None

    def _scope(self, graph: AotGraph, op: AotOp, cause: OpNode | None) -> Scope:
        inside = self.module_scope(op.modules)
        if not graph.is_backward:
            here: Scope = self._observer.tables.scope
            if graph.is_optimizer and here.phase != "optimizer":
                return self._book.scope(f"{ROOT}/optimizer", "optimizer")
            return inside or here
        found = inside.name if inside is not None else cause.scope if cause is not None else ROOT
        base = found.removeprefix(RECOMPUTED)
        if op.is_recomputed:
            return self._book.scope(f"{RECOMPUTED}{base}", "backward")
        name = base if base.startswith(GRADIENTS) else f"{GRADIENTS}{base}"
        return self._book.scope(name, "backward")

    def module_scope(self, modules: Sequence[weakref.ref[nn.Module]]) -> Scope | None:
        """The scope of the innermost of ``modules``, named as if they were called now."""
        caller: nn.Module | None = self._observer.scopes.module
        scope: Scope | None = None
        for reference in modules:
            module = reference()
            if module is not None:
                scope = self._book.of_module(module, caller)
                caller = module
        return scope


def _ref(made: Record, slot: int, op: AotOp, inner: list[Record], graph: Record) -> Ref:
    ref = Ref(made, slot, ())
    ref.is_loose = not op.info.fills or slot in op.info.workspaces
    source = ref_of(op.inputs[0], inner, graph) if op.inputs else None
    if source is not None and op.info.rearranges and len(op.outputs) == 1:
        ref.values = source.values
    return ref


def ref_of(operand: Operand | None, inner: Any, graph: Record) -> Ref | None:
    """The contents an operand stands for; None where it is not known exactly."""
    if operand is None:
        return None
    if operand.op is None:
        return graph.sources[operand.slot] if operand.slot < len(graph.sources) else None
    outs = inner[operand.op].outs
    return outs[operand.slot][1] if operand.slot < len(outs) else None


def _edges(
    op: AotOp, inner: list[Record], graph: Record, tensors: list[torch.Tensor]
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
