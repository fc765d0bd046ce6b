"""Captures the ops inside compiled graphs of torch.compile.

A compiled graph runs kernels, which the dispatch mode does not see. Its ops are known from the
graph; the values of wanted ops come from observers that are compiled into it (``graph_runs``).
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from torch import fx, nn

from sonde.adapters.torch import private
from sonde.adapters.torch.compiled import compiler_private as compiler
from sonde.adapters.torch.compiled.graph import (
    AotGraph,
    Family,
    Modules,
    describe,
    modules_of,
    sources_of,
)
from sonde.adapters.torch.compiled.graph_runs import GraphRuns, wants_values
from sonde.adapters.torch.compiled.learning import GraphLearner, TracedPlace
from sonde.adapters.torch.compiled.variants import CAPTURES, CompiledCode
from sonde.adapters.torch.eager.dispatch_mode import Observer
from sonde.adapters.torch.eager.naming.scopes import ScopeRegistry
from sonde.adapters.torch.guard import FailureGuard
from sonde.capture.session import Session
from sonde.core.text.problem_line import ProblemLine

logger = logging.getLogger("sonde.capture")

_MOST_OPS_TO_COUNT = 3000
"""Ops up to which kernels of plain code are counted, which compiles it a second time."""


class CompiledGraphs:
    """Observes the compiled graphs of one capture. Used from the training thread only.

    ``is_watching``: whether the running step is wanted.
    """

    def __init__(
        self,
        session: Session,
        observer: Observer,
        registry: ScopeRegistry,
        failed: Callable[[Exception], None],
        *,
        interprets: bool,
    ) -> None:
        self._session = session
        self._observer = observer
        self._unobservable = FailureGuard(self._report_unobservable)
        self._interprets = interprets
        self._learner = GraphLearner(observer, registry)
        self._thread = threading.get_ident()
        self._modules: dict[str, weakref.ref[nn.Module]] = {}
        self._codes: list[CompiledCode] = []
        self._is_failure_reported = False
        self.is_watching = False
        self.runs = GraphRuns(
            session, observer, self._learner, FailureGuard(failed), self._unobservable
        )

    def install(
        self,
        hidden: Callable[[], AbstractContextManager[None]],
        began: Callable[[], None],
        undo: ExitStack,
    ) -> None:
        """Observe what is compiled from here on; frames are traced inside ``hidden()``.

        ``began`` is called when a compiled function is about to run.
        """
        compiler.watch_entries(began, undo)
        compiler.hide_while_tracing(hidden, undo)
        compiler.watch_backends(self._wrapped, undo)
        compiler.watch_traced(self._traced, undo)
        compiler.watch_modules(self._modules, undo)
        CAPTURES.append(self)
        undo.callback(CAPTURES.remove, self)

    def begin_step(self, *, wanted: bool) -> None:
        self._learner.begin_step()
        self.is_watching = wanted

    def is_here(self) -> bool:
        """Whether compiled code that runs now is to be observed."""
        is_step = self.is_watching and threading.get_ident() == self._thread
        return is_step and not self._observer.outside.is_here

    def report_summary(self) -> None:
        """What was observed of compiled code, in one line, and what could not be."""
        seen = [code for code in self._codes if code.names]
        if seen:
            for line in _summary_lines(seen, is_interpreted=self._interprets):
                self._session.report(line)
        self._codes.clear()

    def set_place(self, place: TracedPlace | None) -> None:
        """Set where the ops that run next were traced; None: they were not traced."""
        observer = self._observer
        observer.set_traced(place.sources if place is not None else ())
        scope = self._learner.module_scope(place.modules) if place is not None else None
        if scope is None:
            observer.scopes.show_top()
        else:
            observer.tables.scope = scope

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
                wanted = self._draft_wanted(graph)
                if graph.ops:
                    interprets = self._interprets or not is_inductor
                    made = CompiledCode(graph, module, list(inputs), backend, interprets)
            if made is None:
                return backend(module, inputs)
            made.variant_for(wanted, self._unobservable)  # Compiles what will run next.
            self._codes.append(made)
            return made

        return compile_graph

    def _traced(self, module: fx.GraphModule, run: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a graph that its backend runs unchanged, op by op."""
        with self._unobservable:
            return _TracedGraph(module, run, dict(self._modules))
        return run

    def _draft_wanted(self, graph: AotGraph) -> frozenset[int]:
        """The ops that will be wanted if the graph, which is being compiled, runs next."""
        if not self.is_here():
            return frozenset()
        nodes = self._learner.draft(graph, sys._getframe(1))
        return frozenset(
            op.number
            for op, node in zip(graph.ops, nodes, strict=True)
            if wants_values(self.runs.wants(node, op.original))
        )

    def _report_unobservable(self, error: Exception) -> None:
        """Report, once, that a graph runs without being observed."""
        if not self._is_failure_reported:
            self._is_failure_reported = True
            text = next(iter(str(error).splitlines()), "")
            line = (
                "sonde: a compiled graph cannot be observed and runs as it is: "
                f"{type(error).__name__}: {text[:300]}; --compiled eager may show it"
            )
            self._session.report(ProblemLine(line, slug="compiled-unobserved"))
            logger.debug("%s", "".join(traceback.format_exception(error)))


def _set_place(place: TracedPlace | None) -> bool:
    """Set where the next ops were traced, None at the end; returns False if no capture needs it."""
    for graphs in CAPTURES:
        if graphs.is_here():
            graphs.set_place(place)
            return True
    return False


class _TracedGraph:
    """Runs ``original``, the forward of ``module``, a graph that its backend leaves unchanged.

    The dispatch mode sees its ops, but not the module and the line that each op was traced from;
    these are passed to it before the op runs.
    """

    def __init__(
        self, module: fx.GraphModule, original: Callable[..., Any], modules: Modules
    ) -> None:
        self._original = original
        self._places: list[TracedPlace] = []
        self._marked = self._with_marks(module, modules)

    def __call__(self, *args: Any) -> Any:
        if not _set_place(None):
            return self._original(*args)
        try:
            return self._marked(*args)
        finally:
            _set_place(None)

    def _mark(self, number: int) -> None:
        _set_place(self._places[number])

    def _with_marks(self, module: fx.GraphModule, modules: Modules) -> Callable[..., Any]:
        """``module`` with a mark before each op; parameters and constants are shared."""
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        graph.output(graph.graph_copy(module.graph, copies))
        for node, copy in copies.items():
            if node.op in ("call_function", "call_method", "call_module"):
                self._places.append(TracedPlace(modules_of(node, modules), sources_of(node)))
                with graph.inserting_before(copy):
                    graph.call_function(self._mark, (len(self._places) - 1,))
        forward: Callable[..., Any] = fx.GraphModule(module, graph).forward
        return forward


private.hide_from_compiler(_TracedGraph.__call__)


def _summary_lines(graphs: Sequence[CompiledCode], *, is_interpreted: bool) -> Iterator[str]:
    """One line of counts; another if wanted values do not exist in the compiled code."""
    observed = sum(len(each.observed.looks) for each in graphs if each.observed)
    total = sum(len(each.graph.ops) for each in graphs)
    yield (
        f"sonde: {observed} of {total} ops in {len(graphs)} compiled graph"
        f"{'s' if len(graphs) > 1 else ''} observed{_how(graphs, is_interpreted=is_interpreted)}"
    )
    missing = [
        name
        for each in graphs
        if each.observed is not None
        for number, name in each.names.items()
        if number not in each.observed.looks
    ]
    if missing:
        yield ProblemLine(
            f"sonde: {len(missing)} of the wanted values are not computed in compiled code, such "
            f"as {missing[0]}; --compiled interpret or --compiled eager computes them",
            slug="compiled-not-materialised",
        )


def _how(graphs: Sequence[CompiledCode], *, is_interpreted: bool) -> str:
    if is_interpreted:
        return ", run op by op: its numbers may differ in the last bits from the compiled code's"
    made = [each for each in graphs if each.observed and each.observed.kernels]
    if not made:
        return ""
    observed = sum(code.observed.kernels or 0 for code in made if code.observed)
    if sum(len(code.graph.ops) for code in made) > _MOST_OPS_TO_COUNT:
        return f"; {observed} kernels with observers"
    plain = [code.plain_kernels() for code in made]
    if None in plain:
        return f"; {observed} kernels with observers"
    return f"; {observed} kernels with observers, {sum(filter(None, plain))} without"
