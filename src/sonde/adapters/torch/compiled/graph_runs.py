"""Runs compiled graphs and emits the values that their observers are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import fx

from sonde.adapters.torch import private
from sonde.adapters.torch.compiled.graph import NUMBER, AotGraph, AotOp, Operand, tensor_arguments
from sonde.adapters.torch.compiled.learning import GraphLearner, ref_of
from sonde.adapters.torch.compiled.variants import CompiledCode, Variant
from sonde.adapters.torch.eager.dispatch_mode import Observer
from sonde.adapters.torch.eager.op_tree import ALIAS, WRITTEN, OpRecord, TensorRef
from sonde.adapters.torch.eager.step_inputs import storage_key
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.mode_stack import mode_stack
from sonde.adapters.torch.tensors.view import TorchCall, TorchView
from sonde.capture.session import Session, Wants
from sonde.core.graph import OpNode
from sonde.core.interruption import ignored
from sonde.core.keys import Io


@dataclass(slots=True, eq=False)
class GraphRun:
    """One run of a compiled graph: its record, and the storages and tokens of its inputs."""

    code: CompiledCode
    record: OpRecord
    variant: Variant
    keys: list[int]
    tokens: list[TensorRef | None]


@dataclass(slots=True, eq=False)
class GraphRuns:
    """Runs the compiled graphs of one capture, observed. Used from the training thread only.

    ``guard`` shields the program from failures of Sonde's own code; ``unobservable`` gets the
    errors of compiling observed code. ``running`` are the graphs that run now, innermost last.
    """

    session: Session
    observer: Observer
    learner: GraphLearner
    guard: FailureGuard
    unobservable: FailureGuard
    running: list[GraphRun] = field(default_factory=list)

    def run(self, code: CompiledCode, args: list[Any], caller: FrameType) -> Any:
        """Run ``code`` on ``args``, observed; an exception is the compiled code's own."""
        entered = None
        with self.guard, self._hidden_ops():
            entered = self._enter(code, args, caller)
        if entered is None:
            return code.make_plain().run(args)
        # Not guarded: an error of the program's backend is the program's.
        run = self._begin(code, *entered)
        # The backend empties the list: kept for finding the op that raises.
        kept = list(args) if any(_wants_failures(op.wants) for op in run.record.inner) else None
        with self._hidden_ops():
            self.running.append(run)
            try:
                outputs = run.variant.run(args)
            except Exception as error:
                with self.guard:
                    self._raised(run, kept, error)
                raise
            finally:
                self.running.pop()
            with self.guard:
                self._leave(run, outputs)
            return outputs

    def wants(self, node: OpNode, original: str | None) -> Wants | None:
        """Which consumers want ``node``, by its own type or by that of the op it was decomposed
        from."""
        wants = self.session.wants(node)
        if wants is None and original is not None:
            wants = self.session.wants(
                OpNode(name=node.name, type=original, scope=node.scope, phase=node.phase)
            )
        return wants

    def emit(self, number: int, values: Sequence[torch.Tensor]) -> None:
        """Emit ``values``, which the observer of op ``number`` was given by the running code."""
        with self.guard:
            run = self.running[-1]
            record = run.record.inner[number]
            if record.wants is None:
                return
            look = run.variant.looks[number]
            outputs = [
                _view(tensor, "output", slot, record.outs[slot][1])
                for slot, tensor in zip(look.outputs, values, strict=False)
            ]
            inputs = [
                _view(tensor, "input", slot, _content(run, operand))
                for (slot, operand), tensor in zip(look.inputs, values[len(outputs) :], strict=True)
            ]
            op = run.code.graph.ops[number]
            self.session.write(record.wants, self._call(record, op, inputs, outputs))

    @contextmanager
    def _hidden_ops(self) -> Iterator[None]:
        """Hide the ops of this block from the dispatch mode."""
        modes = mode_stack()
        if len(modes) == 1 and modes[0] is self.observer:
            with private.without_modes():
                yield
            return
        # There are modes of the program or of torch, which must see the ops.
        self.observer.is_suspended = True
        try:
            yield
        finally:
            self.observer.is_suspended = False

    def _enter(
        self, code: CompiledCode, args: list[Any], caller: FrameType
    ) -> tuple[OpRecord, list[int], list[TensorRef | None]]:
        """Recognise the graph that is about to run, and emit the step inputs it is the first op
        to read. Returns its record, the keys of its inputs' storages, and their tokens."""
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        keys = [storage_key(tensor) for tensor in tensors]
        record = self.learner.record_for(code.graph, tensors, keys, caller)
        emitter = self.observer.emitter
        if record.wants_generation != self.session.generation:
            emitter.find_wants(record)
            record.wants = None
            for op, inner in zip(code.graph.ops, record.inner, strict=True):
                inner.wants = self.wants(inner.node, op.original)
        if record.leaves:
            emitter.emit_leaves(record, tensors)
        return record, keys, emitter.tokens(record, tensors)

    def _begin(
        self, code: CompiledCode, record: OpRecord, keys: list[int], tokens: list[TensorRef | None]
    ) -> GraphRun:
        """The run that begins, with the variant of the code that observes what is wanted."""
        wanted = frozenset(
            number for number, inner in enumerate(record.inner) if wants_values(inner.wants)
        )
        variant = code.variant_for(wanted, self.unobservable)
        if variant is code.observed and not code.names:
            code.names = {number: record.inner[number].node.name for number in wanted}
        return GraphRun(code, record, variant, keys, tokens)

    def _raised(self, run: GraphRun, args: list[Any] | None, error: Exception) -> None:
        """Report which op of the graph raises on these inputs, where a consumer asked for it."""
        if args is None:
            return
        graph = run.code.graph
        search = _Search(run.code.module, graph)
        with ignored(Exception):
            search.run(*args)
        if search.number is None:
            return
        record, op = run.record.inner[search.number], graph.ops[search.number]
        if record.wants is not None:
            self.observer.emitter.raisers.append(run.record)
            inputs = [_view(each, "input", slot, None) for slot, each in enumerate(search.inputs)]
            self.session.op_failed(record.wants, self._call(record, op, inputs, ()), error)

    def _call(
        self, record: OpRecord, op: AotOp, inputs: Sequence[TorchView], outputs: Sequence[TorchView]
    ) -> TorchCall:
        return TorchCall(
            record.node,
            self.session.step,
            record.order,
            self.observer.tables.now(),
            inputs,
            outputs,
            traced_attributes=op.attributes,
        )

    def _leave(self, run: GraphRun, outputs: Sequence[Any]) -> None:
        """Note in the tables what the graph returned and wrote to, as outputs of its ops."""
        tables = self.observer.tables
        graph, record = run.code.graph, run.record
        seen = set(run.keys)
        for operand, tensor in zip(graph.results, outputs, strict=False):
            if operand is None or operand.op is None or not isinstance(tensor, torch.Tensor):
                continue
            ref = ref_of(operand, record.inner, record)
            key = storage_key(tensor)
            if ref is None:
                continue
            if key >= 0:
                tables.watch(key, tensor.untyped_storage())
            tables.put(ALIAS if key in seen else WRITTEN, ref, key, private.tensor_id(tensor))
            seen.add(key)
        for op in graph.ops:
            if op.written is not None:
                key = run.keys[op.written]
                tables.put(WRITTEN, record.inner[op.number].outs[0][1], key, 0)
        self.observer.ran_graph(record)


def wants_values(wants: Wants | None) -> bool:
    """Whether a consumer wants the op's values, not only a report when it raises."""
    return wants is not None and any(each.op_failed is None for each in wants.subscriptions)


def _wants_failures(wants: Wants | None) -> bool:
    return wants is not None and any(each.op_failed is not None for each in wants.subscriptions)


def _content(run: GraphRun, operand: Operand) -> TensorRef | None:
    if operand.op is None:
        return run.tokens[operand.slot]
    return ref_of(operand, run.record.inner, run.record)


def _view(tensor: torch.Tensor, io: Io, slot: int, content: TensorRef | None) -> TorchView:
    """A view of memory that compiled code may use again at once: it is never lent."""
    is_filled = content is None or not content.is_unfilled
    return TorchView(tensor, io, slot, content if is_filled else None, is_filled=is_filled)


class _Search(fx.Interpreter):
    """Runs a graph op by op to find the one that raises: ``number``, with its ``inputs``.

    A compiled kernel may compute many ops, so that its exception does not name one. The graph's
    only side effects, the copies at its end, are left out.
    """

    def __init__(self, module: fx.GraphModule, described: AotGraph) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self._described = described
        self.number: int | None = None
        self.inputs: list[torch.Tensor] = []

    def run_node(self, n: fx.Node) -> Any:
        number = n.meta.get(NUMBER)
        if number is None:
            return super().run_node(n)
        if self._described.ops[number].written is not None:
            return self.env[tensor_arguments(n)[0]]
        try:
            return super().run_node(n)
        except Exception:
            self.number = number
            self.inputs = [self.env[argument] for argument in tensor_arguments(n)]
            raise
