"""Writes signals, findings and captured steps to a tracker while a training runs."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Final, Literal, Protocol

from sonde.adapters.torch.attach import current_rank
from sonde.adapters.torch.replay.random_states import kept_random
from sonde.core.finding import Finding, Severity
from sonde.core.text.problem_line import ProblemLine
from sonde.logs import say
from sonde.monitor.signals import Signals
from sonde.monitor.subscribers import subscribe

SERIES: Final = ("loss", "grad_norm", "weight_norm", "update_ratio", "learning_rate")
"""The signals that are logged: few, because trackers limit the number of names."""


class Tracker(Protocol):
    """A run of a tracker: one that the program has opened, or an own one."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add numbers to series."""

    def alert(self, title: str, text: str, level: Literal["INFO", "WARN", "ERROR"]) -> None:
        """Tell the user of a finding."""

    def keep(self, directory: Path) -> None:
        """Keep a captured step as an artifact."""

    def close(self) -> None:
        """End the run, if it is an own one."""


_LEVELS: Final[Mapping[Severity, Literal["INFO", "WARN", "ERROR"]]] = {
    "error": "ERROR",
    "warning": "WARN",
    "info": "INFO",
}


@contextmanager
def tracked(name: str, project: str) -> Iterator[None]:
    """Log the training in this block to the tracker of this name; a UsageError if its library is
    not installed."""
    module = import_module(f"sonde.integrations.trackers.{name}")
    training = TrackedTraining(lambda: module.open_run(project))
    unsubscribe = subscribe(training)
    try:
        yield
    finally:
        unsubscribe()
        training.close()


@contextmanager
def _unnoticed() -> Iterator[None]:
    """Keep random generators and standard output as the program has them: trackers name their runs
    with random words, and print."""
    with kept_random(), redirect_stdout(sys.stderr):
        yield


class TrackedTraining:
    """What a tracker is told, by the first rank. Its run is opened when there is something to log:
    by then the program has opened its own, which is used. Not for use from several threads."""

    def __init__(self, open_run: Callable[[], Tracker]) -> None:
        self._open_run = open_run
        self._run: Tracker | None = None
        self._findings = 0
        self._pid = os.getpid()

    def measured(self, signals: Signals) -> None:
        values = {name: float(getattr(signals, name)) for name in SERIES}
        known = {f"sonde/{name}": value for name, value in values.items() if not math.isnan(value)}
        # A loss that is NaN must be seen as such; other numbers that are NaN are not known.
        if signals.has_loss:
            known["sonde/loss"] = values["loss"]
        known["sonde/findings"] = float(self._findings)
        self._tell(lambda run: run.log(known, signals.step))

    def triggered(self, finding: Finding, kept: Sequence[Path]) -> None:
        lines = [f"captured step: {path.absolute().as_uri()}" for path in kept]
        lines += [f"next: sonde replay {path} --debug" for path in kept[:1]]
        self._alert(finding, lines)
        for path in kept:
            self._tell(lambda run, path=path: run.keep(path))  # type: ignore[misc]

    def diagnosed(self, finding: Finding) -> None:
        self._alert(finding, [f"do: {finding.advice}"] if finding.advice else [])

    def close(self) -> None:
        """End an own run; a failure is reported."""
        if self._run is not None and os.getpid() == self._pid:
            try:
                with _unnoticed():
                    self._run.close()
            except Exception as error:
                text = f"the tracker's run could not be ended: {type(error).__name__}: {error}"
                say(ProblemLine(text, slug="tracker-close"))

    def _alert(self, finding: Finding, lines: Sequence[str]) -> None:
        self._findings += 1
        place = [] if finding.source is None else [f"{finding.source.file}:{finding.source.line}"]
        text = "\n".join([finding.message, *place, *lines])
        step = "" if finding.step is None else f" in step {finding.step}"
        title = f"sonde: {finding.rule}{step}"
        self._tell(lambda run: run.alert(title, text, _LEVELS[finding.severity]))

    def _tell(self, call: Callable[[Tracker], None]) -> None:
        if current_rank() != 0:
            return
        with _unnoticed():
            if self._run is None:
                self._run = self._open_run()
            call(self._run)
