"""Watches the compiler for one capture, from the first ``torch.compile`` of the program on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from sonde.adapters.torch import private
from sonde.adapters.torch.compiled.gate import (
    CompiledMode,
    compiled_before_line,
    know_watched,
    on_first_compile,
)
from sonde.adapters.torch.eager.dispatch_mode import Observer
from sonde.adapters.torch.eager.observation_switch import ObservationSwitch
from sonde.adapters.torch.eager.scopes import ScopeBook
from sonde.adapters.torch.guard import FailureGuard
from sonde.capture.session import Session
from sonde.core.errors import CaptureError

if TYPE_CHECKING:
    from sonde.adapters.torch.compiled.capture import CompiledGraphs


class CompilerWatch:
    """Has compiled code observed, or run uncompiled in the steps that are observed.

    ``asked`` is how the user wants compiled code to be observed, ``mode`` how it can be (see
    ``gate.possible_mode``). In a program that compiles nothing, nothing is done.
    """

    def __init__(
        self,
        asked: CompiledMode,
        mode: CompiledMode,
        session: Session,
        observer: Observer,
        scopes: ScopeBook,
        switch: ObservationSwitch,
        failed: Callable[[Exception], None],
    ) -> None:
        self._mode = mode
        self._session = session
        self._observer = observer
        self._scopes = scopes
        self._switch = switch
        self._failed = failed
        self._graphs: CompiledGraphs | None = None
        self._compiled_before = compiled_before_line(asked, session)
        if self._compiled_before is not None:
            observer.learner.ran_compiled = False

    @property
    def has_graphs(self) -> bool:
        """Whether the graphs of a step may contain compiled ones."""
        return self._graphs is not None

    def install(self, undo: ExitStack) -> None:
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
        if self._mode != "eager":
            try:
                self._graphs = self._watched_graphs(undo)
            except CaptureError as error:  # This torch lacks private parts of its compiler.
                self._mode = "eager"
                self._session.report(
                    f"sonde: {error}; compiled code runs eagerly in the steps that are observed "
                    f"[{error.slug}]"
                )
        if self._mode == "eager":
            undo.callback(private.run_uncompiled, False)
            private.run_uncompiled(self._switch.is_observing)

    def _watched_graphs(self, undo: ExitStack) -> CompiledGraphs:
        # Imports the compiler, which takes a second or two.
        from sonde.adapters.torch.compiled.capture import CompiledGraphs

        graphs = CompiledGraphs(
            self._session, self._observer, self._scopes, self._failed, self._mode
        )
        graphs.install(self._switch.hidden_hooks, self._switch.complete_at_entry, undo)
        know_watched(undo)
        graphs.is_watching = self._switch.is_observing
        return graphs
