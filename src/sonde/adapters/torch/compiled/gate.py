"""Decides how compiled code is observed, and starts at the first call of ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import InitVar, dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.dispatch_mode import Observer
from sonde.adapters.torch.eager.naming.scopes import ScopeRegistry
from sonde.adapters.torch.eager.observation_switch import ObservationSwitch
from sonde.adapters.torch.guard import FailureGuard
from sonde.capture.session import Session
from sonde.core.errors import CaptureError
from sonde.core.patching import Patch, call_before
from sonde.core.text.problem_line import ProblemLine
from sonde.core.weak_table import WeakTable

if TYPE_CHECKING:
    from sonde.adapters.torch.compiled.capture import CompiledGraphs

CompiledMode = Literal["observe", "interpret", "eager"]
"""How compiled code is observed. "observe": its own kernels, with observers between them;
"interpret": its graphs, run op by op; "eager": wanted steps run uncompiled."""

_WATCHED: WeakTable[CodeType, None] = WeakTable()


def _note_watched() -> None:
    for code in private.compiled_codes():
        _WATCHED[code] = None


def possible_mode(asked: CompiledMode, session: Session) -> CompiledMode:
    """``asked``, or "eager" where nothing is observed or code was compiled before the capture.

    Code that was compiled without observers cannot be observed, so it runs eagerly in the steps
    that are.
    """
    return asked if session.subscriptions and not _unwatched() else "eager"


def _unwatched() -> int:
    """How many compiled functions, or parts of them, were compiled outside of any capture."""
    return sum(code not in _WATCHED for code in private.compiled_codes())


@dataclass(slots=True, eq=False)
class CompilerWatch:
    """Has compiled code observed, or run uncompiled in the steps that are observed.

    ``asked`` is how the user wants compiled code to be observed, ``mode`` how it can be (see
    `possible_mode`). In a program that compiles nothing, nothing is done.
    """

    asked: InitVar[CompiledMode]
    _mode: CompiledMode
    _session: Session
    _observer: Observer
    _scopes: ScopeRegistry
    _switch: ObservationSwitch
    _failed: Callable[[Exception], None]
    _graphs: CompiledGraphs | None = None
    _compiled_before: str | None = None

    def __post_init__(self, asked: CompiledMode) -> None:
        self._compiled_before = _compiled_before_line(asked, self._session)
        if self._compiled_before is not None:
            self._observer.learner.ran_compiled = False

    @property
    def has_graphs(self) -> bool:
        """Whether the graphs of a step may contain compiled ones."""
        return self._graphs is not None

    def install(self, undo: ExitStack) -> None:
        if self._mode == "eager":
            undo.callback(private.run_uncompiled, False)
        on_first_compile(lambda: self._compiler_needed(undo), undo)

    def begin_step(self, *, wanted: bool) -> None:
        if self._graphs is not None:
            self._graphs.begin_step(wanted=wanted)
        elif self._mode == "eager":
            private.run_uncompiled(wanted)

    def stop(self) -> None:
        """Observe no compiled code any more."""
        if self._graphs is not None:
            self._graphs.is_watching = False

    def report(self) -> None:
        """Report, at the end, what was observed of compiled code and what could not be."""
        if self._graphs is not None:
            with FailureGuard(self._failed):
                self._graphs.report_summary()
        if self._compiled_before is not None and self._observer.learner.ran_compiled:
            self._session.report(self._compiled_before)

    def _compiler_needed(self, undo: ExitStack) -> None:
        """Start to watch: the program is about to compile something."""
        with FailureGuard(self._failed):
            if self._mode != "eager":
                try:
                    self._graphs = self._watched_graphs(undo)
                except CaptureError as error:  # This torch lacks private parts of its compiler.
                    self._mode = "eager"
                    text = (
                        f"sonde: {error}; compiled code runs eagerly in the steps that are observed"
                    )
                    self._session.report(ProblemLine(text, slug=error.slug))
            if self._mode == "eager":
                undo.callback(private.run_uncompiled, False)
                private.run_uncompiled(self._switch.is_observing)

    def _watched_graphs(self, undo: ExitStack) -> CompiledGraphs:
        # Imports the compiler, which takes a second or two.
        from sonde.adapters.torch.compiled.capture import CompiledGraphs

        graphs = CompiledGraphs(
            self._session,
            self._observer,
            self._scopes,
            self._failed,
            interprets=self._mode == "interpret",
        )
        graphs.install(self._switch.hidden_hooks, self._switch.complete_at_entry, undo)
        # Everything that is compiled up to the end of the capture can be observed later.
        undo.callback(_note_watched)
        graphs.is_watching = self._switch.is_observing
        return graphs


def _compiled_before_line(asked: CompiledMode, session: Session) -> str | None:
    """The line to report at the end if `possible_mode` is "eager" and ``asked`` is not."""
    count = _unwatched()
    if asked == "eager" or not session.subscriptions or not count:
        return None
    subject = "1 function or part of one was" if count == 1 else f"{count} functions or parts were"
    return ProblemLine(
        f"sonde: {subject} compiled before the capture began and cannot be observed: in the "
        "observed steps compiled code ran eagerly, and the numbers are those of eager code; begin "
        "the capture before the first call, or use sonde run",
        slug="compiled-before",
    )


def on_first_compile(action: Callable[[], None], undo: ExitStack) -> None:
    """Call ``action`` before anything is compiled: now, if a function was already given to
    ``torch.compile``. That the compiler is imported says nothing: making an optimizer does it."""
    if private.has_compiled_functions():
        action()
        return
    patches: list[Patch] = []

    def start(*_: Any, **__: Any) -> None:
        if not patches:  # The program may have kept the patched function.
            return
        while patches:
            patches.pop().restore()
        action()

    patches.append(call_before(torch, "compile", start, undo))
    kind = private.compiler_context()
    if kind is not None:  # ``torch._dynamo.optimize`` may be called directly.
        patches.append(call_before(kind, "__init__", start, undo))
