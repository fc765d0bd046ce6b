"""Captures the ops inside compiled graphs of torch.compile.

A compiled graph runs kernels, which the dispatch mode does not see. Its ops are known from the
graph; the values of wanted ops come from observers that are compiled into it.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import fx, nn

from sonde.adapters.torch import private
from sonde.adapters.torch.compiled import compiler_private as compiler
from sonde.adapters.torch.compiled.failure import find_failure
from sonde.adapters.torch.compiled.gate import CompiledMode
from sonde.adapters.torch.compiled.graph import AotGraph, AotOp, Family, Operand, describe
from sonde.adapters.torch.compiled.learning import GraphLearner, TracedPlace, ref_of
from sonde.adapters.torch.compiled.summary import tally_lines
from sonde.adapters.torch.compiled.traced_graph import TracedGraph
from sonde.adapters.torch.compiled.variants import CompiledCode, Variant
from sonde.adapters.torch.eager.dispatch_mode import Observer
from sonde.adapters.torch.eager.op_tree import ALIAS, WRITTEN, OpRecord, TensorRef
from sonde.adapters.torch.eager.scopes import ScopeBook
from sonde.adapters.torch.eager.step_inputs import storage_key
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.tensors.view import TorchView
from sonde.capture.session import Session, Wants
from sonde.core.graph import OpNode
from sonde.core.keys import Io

logger = logging.getLogger("sonde.capture")

Hidden = Callable[[], AbstractContextManager[None]]


@dataclass(slots=True, eq=False)
class Passage:
    """One run of a compiled graph: its record, and the storages and tokens of its inputs."""

    graph: AotGraph
    record: OpRecord
    variant: Variant
    keys: list[int]
    tokens: list[TensorRef | None]


@dataclass(slots=True, eq=False)
class CompiledCall:
    """See ``core.sink.OpCall``: one run of an op inside compiled code."""

    node: OpNode
    step: int
    order: int
    timestamp: int
    inputs: Sequence[TorchView]
    outputs: Sequence[TorchView]
    attributes: tuple[tuple[str, str], ...]


class CompiledGraphs:
    """Watches the compiled graphs of one capture. Used from the training thread only.

    ``is_watching``: whether the running step is wanted.
    """

    def __init__(
        self,
        session: Session,
        observer: Observer,
        book: ScopeBook,
        failed: Callable[[Exception], None],
        mode: CompiledMode,
    ) -> None:
        self._session = session
        self._observer = observer
        self._guard = FailureGuard(failed)
        self._unobservable = FailureGuard(self._report_unobservable)
        self._mode = mode
        self._learner = GraphLearner(observer, book)
        self._thread = threading.get_ident()
        self._modules: dict[str, weakref.ref[nn.Module]] = {}
        self._families: weakref.WeakKeyDictionary[Any, Family] = weakref.WeakKeyDictionary()
        self._codes: list[ObservedGraph] = []
        self._is_told = False
        self.is_watching = False
        self.passages: list[Passage] = []

    def install(self, hidden: Hidden, began: Callable[[], None], undo: ExitStack) -> None:
        """Watch what is compiled from here on; frames are traced inside ``hidden()``.

        ``began`` is called when a compiled function is about to run.
        """
        compiler.watch_entries(lambda: began() if self in _CURRENT else None, undo)
        compiler.hide_while_tracing(hidden, undo)
        compiler.watch_backends(self._wrapped, undo)
        compiler.watch_traced(self._traced, undo)
        compiler.watch_modules(self._modules, undo)
        _CURRENT.append(self)
        undo.callback(_CURRENT.remove, self)

    def begin_step(self, *, wanted: bool) -> None:
        self._learner.begin_step()
        self.is_watching = wanted

    def report_summary(self) -> None:
        """What was observed of compiled code, in one line, and what could not be."""
        seen = [code for code in self._codes if code.names]
        if seen:
            for line in tally_lines(seen, is_interpreted=self._mode == "interpret"):
                self._session.report(line)
        self._codes.clear()

    # ------------------------------------------------------------ compilation

    def _wrapped(
        self, backend: compiler.Compile, *, is_inductor: bool, is_backward: bool, key: Family
    ) -> compiler.Compile:
        def compile_graph(module: fx.GraphModule, inputs: Sequence[Any]) -> Any:
            made = None
            wanted: frozenset[int] = frozenset()
            with self._unobservable:
                if is_inductor and compiler.freezes_parameters():
                    # Freezing drops inputs and the graph, so that it can be compiled only once.
                    raise NotImplementedError("Inductor makes constants of its parameters")
                graph = describe(module.graph, self._modules, is_backward=is_backward, family=key)
                interprets = self._mode == "interpret" or not is_inductor
                wanted = self._draft_wanted(graph)
                if graph.ops:
                    made = ObservedGraph(graph, module, inputs, backend, interprets=interprets)
            if made is None:
                return backend(module, inputs)
            made.variant_for(wanted, self._unobservable)  # Compiles what will run next.
            self._codes.append(made)
            return made

        return compile_graph

    def _traced(self, module: fx.GraphModule, run: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a graph that its backend runs unchanged, op by op."""
        with self._unobservable:
            return TracedGraph(module, run, dict(self._modules), tell_place)
        return run

    def tell(self, place: TracedPlace | None) -> None:
        """Set where the ops that run next were traced; None: they were not traced."""
        learner = self._observer.learner
        if place is None:
            learner.traced = ()
            self._observer.scopes.show_top()
        else:
            learner.traced = place.sources
            scope = self._learner.module_scope(place.modules)
            if scope is None:
                self._observer.scopes.show_top()
            else:
                self._observer.tables.scope = scope

    def _draft_wanted(self, graph: AotGraph) -> frozenset[int]:
        """The ops that will be wanted if the graph, which is being compiled, runs next."""
        if not self.is_here():
            return frozenset()
        nodes = self._learner.draft(graph, sys._getframe(1))
        return frozenset(
            op.number
            for op, node in zip(graph.ops, nodes, strict=True)
            if _wants_values(self._wants(node, op.original))
        )

    def _wants(self, node: OpNode, original: str | None) -> Wants | None:
        """Who wants ``node``, by its own type or by that of the op it was decomposed from."""
        wants = self._session.wants(node)
        if wants is None and original is not None:
            wants = self._session.wants(
                OpNode(name=node.name, type=original, scope=node.scope, phase=node.phase)
            )
        return wants

    def is_here(self) -> bool:
        """Whether compiled code that runs now is to be observed."""
        return self.is_watching and threading.get_ident() == self._thread

    def _report_unobservable(self, error: Exception) -> None:
        """Report, once, that a graph runs without being observed."""
        if not self._is_told:
            self._is_told = True
            text = next(iter(str(error).splitlines()), "")
            self._session.report(
                "sonde: a compiled graph cannot be observed and runs as it is: "
                f"{type(error).__name__}: {text[:300]}; --compiled eager may show it "
                "[compiled-unobserved]"
            )
            logger.debug("%s", "".join(traceback.format_exception(error)))

    # ---------------------------------------------------------------- running

    def run(self, code: ObservedGraph, args: list[Any], caller: FrameType) -> Any:
        """Run ``code`` on ``args``, observed; an exception is the compiled code's own."""
        entered = None
        with self._guard, self._blind():
            entered = self._enter(code, args, caller)
        if entered is None:
            return code.plain(args)
        # Not guarded: an error of the program's backend is the program's.
        passage = self._passage(code, *entered)
        # The backend empties the list: kept for finding the op that raises.
        kept = list(args) if any(map(_wants_failures, passage.record.inner)) else None
        with self._blind():
            self.passages.append(passage)
            try:
                outputs = passage.variant.run(args)
            except Exception as error:
                with self._guard:
                    self._raised(passage, code, kept, error)
                raise
            finally:
                self.passages.pop()
            with self._guard:
                self._leave(passage, code.graph, outputs)
            return outputs

    @contextmanager
    def _blind(self) -> Iterator[None]:
        """Hide the ops of this block from the dispatch mode."""
        modes = private.mode_stack()
        if len(modes) == 1 and modes[0] is self._observer:
            with private.without_modes():
                yield
            return
        # There are modes of the program or of torch, which must see the ops: only ours sleeps.
        self._observer.is_asleep = True
        try:
            yield
        finally:
            self._observer.is_asleep = False

    def _enter(
        self, code: ObservedGraph, args: list[Any], caller: FrameType
    ) -> tuple[OpRecord, list[int], list[TensorRef | None]]:
        """Recognise the graph that is about to run, and emit the step inputs it is the first op
        to read. Returns its record, the keys of its inputs' storages, and their tokens."""
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        keys = [storage_key(tensor) for tensor in tensors]
        record = self._learner.record_for(code.graph, tensors, keys, caller)
        emitter = self._observer.emitter
        if record.wants_generation != self._session.generation:
            emitter.ask(record)
            record.wants = None
            for op, inner in zip(code.graph.ops, record.inner, strict=True):
                inner.wants = self._wants(inner.node, op.original)
        if record.leaves:
            emitter.leaves(record, tensors)
        return record, keys, emitter.tokens(record, tensors)

    def _passage(
        self, code: ObservedGraph, record: OpRecord, keys: list[int], tokens: list[TensorRef | None]
    ) -> Passage:
        """The run that begins, with the variant of the code that observes what is wanted."""
        wanted = frozenset(
            number for number, inner in enumerate(record.inner) if _wants_values(inner.wants)
        )
        variant = code.variant_for(wanted, self._unobservable)
        if variant is code.code.observed and not code.names:
            code.names = {number: record.inner[number].node.name for number in wanted}
        return Passage(code.graph, record, variant, keys, tokens)

    def _raised(
        self, passage: Passage, code: ObservedGraph, args: list[Any] | None, error: Exception
    ) -> None:
        """Report which op of the graph raises on these inputs, where a consumer asked for it."""
        failure = find_failure(code.code.module, code.graph, args) if args else None
        if failure is None:
            return
        record = passage.record.inner[failure.number]
        if record.wants is not None:
            self._observer.emitter.raisers.append(passage.record)
            inputs = [
                _view(tensor, "input", slot, None) for slot, tensor in enumerate(failure.inputs)
            ]
            op = code.graph.ops[failure.number]
            self._session.op_failed(record.wants, self._call(record, op, inputs, ()), error)

    def observed(self, number: int, values: Sequence[torch.Tensor]) -> None:
        """Emit ``values``, which the observer of op ``number`` was given by the running code."""
        with self._guard:
            self._emit(self.passages[-1], number, values)

    def _emit(self, passage: Passage, number: int, values: Sequence[torch.Tensor]) -> None:
        record = passage.record.inner[number]
        if record.wants is None:
            return
        look = passage.variant.looks[number]
        outputs = [
            _view(tensor, "output", slot, record.outs[slot][1])
            for slot, tensor in zip(look.outputs, values, strict=False)
        ]
        inputs = [
            _view(tensor, "input", slot, self._content(passage, operand))
            for (slot, operand), tensor in zip(look.inputs, values[len(outputs) :], strict=True)
        ]
        op = passage.graph.ops[number]
        self._session.write(record.wants, self._call(record, op, inputs, outputs))

    def _call(
        self, record: OpRecord, op: AotOp, inputs: Sequence[TorchView], outputs: Sequence[TorchView]
    ) -> CompiledCall:
        step, now = self._session.step, self._observer.tables.now()
        return CompiledCall(record.node, step, record.order, now, inputs, outputs, op.attributes)

    def _content(self, passage: Passage, operand: Operand) -> TensorRef | None:
        if operand.op is None:
            return passage.tokens[operand.slot]
        return ref_of(operand, passage.record.inner, passage.record)

    def _leave(self, passage: Passage, graph: AotGraph, outputs: Sequence[Any]) -> None:
        """Note in the tables what the graph returned and wrote to, as outputs of its ops."""
        tables = self._observer.tables
        record = passage.record
        seen = set(passage.keys)
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
                key = passage.keys[op.written]
                tables.put(WRITTEN, record.inner[op.number].outs[0][1], key, 0)
        self._observer.ran_graph(record)


def _wants_values(wants: Wants | None) -> bool:
    """Whether a consumer wants the op's values, not only a report when it raises."""
    return wants is not None and any(each.op_failed is None for each in wants.subscriptions)


def _wants_failures(record: OpRecord) -> bool:
    wants = record.wants
    return wants is not None and any(each.op_failed is not None for each in wants.subscriptions)


def _view(tensor: torch.Tensor, io: Io, slot: int, content: TensorRef | None) -> TorchView:
    """A view of memory that compiled code may use again at once: it is never lent."""
    is_filled = content is None or not content.is_unfilled
    return TorchView(tensor, io, slot, content if is_filled else None, None, is_filled=is_filled)


_CURRENT: list[CompiledGraphs] = []


class ObservedGraph:
    """Runs the code that a backend made, observed while a capture watches; the backend returns
    this object in place of its code.

    It outlives the capture it was compiled in, and serves later ones. ``names`` are those of the
    ops that were wanted when it was first observed.
    """

    _boxed_call = True

    def __init__(
        self,
        graph: AotGraph,
        module: fx.GraphModule,
        inputs: Sequence[Any],
        backend: compiler.Compile,
        *,
        interprets: bool,
    ) -> None:
        self.graph = graph
        self.code = CompiledCode(graph, module, inputs, backend, self, interprets=interprets)
        self.names: dict[int, str] = {}
        self._is_unobservable = False

    def variant_for(self, wanted: frozenset[int], unobservable: FailureGuard) -> Variant:
        """The code that observes the ``wanted`` ops, compiled now if need be; the plain code where
        nothing is wanted, or observed code cannot be made, which ``unobservable`` is told."""
        if wanted and not self._is_unobservable:
            # Set while it is tried: a graph that cannot be observed is not tried again.
            self._is_unobservable = True
            with unobservable:
                variant = self.code.make_observed(wanted)
                self._is_unobservable = False
                return variant
        return self.code.make_plain()

    def plain(self, args: list[Any]) -> Any:
        return self.code.make_plain().run(args)

    def observed(self, number: int, values: Sequence[torch.Tensor]) -> None:
        for graphs in _CURRENT:
            if graphs.passages:
                graphs.observed(number, values)

    def __call__(self, args: list[Any]) -> Any:
        for graphs in _CURRENT:
            if graphs.is_here():
                return graphs.run(self, args, sys._getframe(1))
        return self.plain(args)


def tell_place(place: TracedPlace | None) -> bool:
    """See ``TracedGraph``."""
    for graphs in _CURRENT:
        if graphs.is_here():
            graphs.tell(place)
            return True
    return False


private.hide_from_compiler(ObservedGraph.__call__, ObservedGraph.observed)
