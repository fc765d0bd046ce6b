"""``Diagnose``: says why a training fails, while it runs and at its end."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING

from sonde.core.callback import Callback, RunContext
from sonde.core.finding import Finding
from sonde.diagnosis.options import diagnosis_options

if TYPE_CHECKING:
    from typing import Protocol

    class _Diagnosis(Protocol):
        @property
        def findings(self) -> list[Finding]: ...

        @property
        def confirmed(self) -> list[Finding]: ...


class Diagnose(Callback):
    """Diagnoses the run as ``sonde diagnose`` does, and prints the findings at its end.

    ``findings`` has them, causes first; while the run goes on, those so far. ``stop``: request the
    end of the run at the first finding that is established or supported. ``ignore``: kinds that are
    not reported. ``html`` and ``sarif``: files to write. With ``verbose=False`` nothing is printed.
    """

    def __init__(
        self,
        *,
        stop: bool = False,
        ignore: str | Iterable[str] = (),
        html: str | os.PathLike[str] | None = None,
        sarif: str | os.PathLike[str] | None = None,
        verbose: bool = True,
    ) -> None:
        self._stops = stop
        ignored = (ignore,) if isinstance(ignore, str) else tuple(ignore)
        self._options = diagnosis_options(ignore=ignored, html=html, sarif=sarif)
        self._verbose = verbose
        self._diagnosis: _Diagnosis | None = None
        self._held = ExitStack()

    @property
    def findings(self) -> list[Finding]:
        """At most five findings, causes first; none before the run."""
        return [] if self._diagnosis is None else self._diagnosis.findings

    def __enter__(self) -> Callback:
        # By name: the collection of evidence is in a layer beside this one.
        session = import_module("sonde.adapters.torch.diagnosis.session")
        started = session.diagnosing(self._options, prints=self._verbose)
        self._diagnosis = self._held.enter_context(started)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._held.__exit__(kind, error, traceback)

    def on_train_step_end(self, run_context: RunContext) -> None:
        if self._stops and self._diagnosis is not None and self._diagnosis.confirmed:
            run_context.request_stop()
