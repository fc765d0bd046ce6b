"""Writes signals, findings and captured steps to a tracker while a training runs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from sonde.adapters.torch.attach import current_rank
from sonde.core.finding import Finding
from sonde.core.text.problem_line import ProblemLine
from sonde.integrations.trackers.alerts import Alert, Alerting, alert_of, logged_to, unnoticed
from sonde.logs import say
from sonde.monitor.signals import Signals
from sonde.monitor.subscribers import subscribe

SERIES: Final = ("loss", "grad_norm", "weight_norm", "update_ratio", "learning_rate")
"""The signals that are logged: few, because trackers limit the number of names."""


class Tracker(Alerting, Protocol):
    """A run of a tracker: one that the program has opened, or an own one."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add numbers to series."""

    def keep(self, directory: Path) -> None:
        """Keep a captured step as an artifact."""

    def close(self) -> None:
        """End the run, if it is an own one."""


@contextmanager
def tracked(name: str, project: str) -> Iterator[None]:
    """Log the training in this block to the tracker of this name; a UsageError if its library is
    not installed."""
    module = import_module(f"sonde.integrations.trackers.{name}")
    training = TrackedTraining(name, lambda: module.open_run(project))
    unsubscribe = subscribe(training)
    try:
        with logged_to(name):
            yield
    finally:
        unsubscribe()
        training.close()


class TrackedTraining:
    """What a tracker is told, by the first rank. Its run is opened when there is something to log:
    by then the program has opened its own, which is used. Not for use from several threads."""

    def __init__(self, tracker: str, open_run: Callable[[], Tracker]) -> None:
        self.name = f"logging to {tracker}"
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
        self._alert(alert_of(finding, kept))
        for path in kept:
            self._tell(lambda run, path=path: run.keep(path))  # type: ignore[misc]

    def diagnosed(self, finding: Finding) -> None:
        self._alert(alert_of(finding))

    def close(self) -> None:
        """End an own run; a failure is reported."""
        if self._run is not None and os.getpid() == self._pid:
            try:
                with unnoticed():
                    self._run.close()
            except Exception as error:
                text = f"the tracker's run could not be ended: {type(error).__name__}: {error}"
                say(ProblemLine(text, slug="tracker-close"))

    def _alert(self, alert: Alert) -> None:
        self._findings += 1
        self._tell(lambda run: run.alert(alert))

    def _tell(self, call: Callable[[Tracker], None]) -> None:
        if current_rank() != 0:
            return
        with unnoticed():
            if self._run is None:
                self._run = self._open_run()
            call(self._run)
