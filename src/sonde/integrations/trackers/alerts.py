"""Findings as alerts: their texts, and the runs of trackers that a program has opened itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from sonde.adapters.torch.attach import current_rank
from sonde.adapters.torch.replay.random_states import kept_random
from sonde.core.finding import Finding, Severity
from sonde.core.interruption import pass_on
from sonde.core.text.problem_line import ProblemLine
from sonde.logs import say

Level = Literal["INFO", "WARN", "ERROR"]
_LEVELS: Final[Mapping[Severity, Level]] = {"error": "ERROR", "warning": "WARN", "info": "INFO"}
_WITH_A_CURRENT_RUN: Final = ("wandb", "mlflow", "trackio")
_logged_to: Final[list[str]] = []


@dataclass(frozen=True, slots=True)
class Alert:
    """A finding as trackers show it; ``step``: in which it was found, if that is known."""

    title: str
    text: str
    level: Level
    step: int | None = None


class Alerting(Protocol):
    """A run of a tracker that takes alerts."""

    def alert(self, alert: Alert) -> None:
        """Tell the user of a finding."""


def alert_of(finding: Finding, kept: Sequence[Path] = ()) -> Alert:
    """The alert about a finding; ``kept`` are the captured steps that it can link to."""
    place = [] if finding.source is None else [f"{finding.source.file}:{finding.source.line}"]
    place += [] if finding.rank is None else [f"rank {finding.rank}"]
    lines = [f"captured step: {path.absolute().as_uri()}" for path in kept]
    lines += [f"next: sonde replay {path} --debug" for path in kept[:1]]
    if not kept and finding.advice:
        lines.append(f"do: {finding.advice}")
    step = "" if finding.step is None else f" in step {finding.step}"
    text = "\n".join([finding.message, *place, *lines])
    title = f"sonde: {finding.rule}{step}"
    return Alert(title, text, _LEVELS[finding.severity], finding.step)


@contextmanager
def unnoticed() -> Iterator[None]:
    """Keep random generators and standard output as the program has them: trackers name their runs
    with random words, and print."""
    with kept_random(), redirect_stdout(sys.stderr):
        yield


class EventFileTexts:
    """Findings in an event file of TensorBoard, which has no alerts: each is a text. ``writer`` is
    a SummaryWriter."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def alert(self, alert: Alert) -> None:
        lines = "  \n".join(alert.text.splitlines())  # Two blanks break a line in Markdown.
        shown = f"**{alert.level} {alert.title}**  \n{lines}"
        self._writer.add_text("sonde/finding", shown, alert.step)
        self._writer.flush()


@contextmanager
def logged_to(name: str) -> Iterator[None]:
    """Say that a command logs to this tracker in the block, which gets its findings from it."""
    _logged_to.append(name)
    try:
        yield
    finally:
        _logged_to.remove(name)


def is_logged_to(name: str) -> bool:
    """Whether a command logs to this tracker."""
    return name in _logged_to


def program_runs() -> list[Alerting]:
    """The runs that are open in the trackers that the program has imported, but for those that a
    command logs to."""
    found = []
    for name in _WITH_A_CURRENT_RUN:
        if name in sys.modules and not is_logged_to(name):
            run = import_module(f"sonde.integrations.trackers.{name}").program_run()
            if run is not None:
                found.append(run)
    return found


class FindingAlerts:
    """Sends findings to the trackers of a framework. ``runs`` is called at the first finding.

    A failure is reported once, and the trackers get no more findings."""

    def __init__(self, runs: Callable[[], Iterable[Alerting]]) -> None:
        self._open = runs
        self._runs: list[Alerting] | None = None
        self._is_broken = False

    def send(self, alert: Alert) -> None:
        """Send an alert, from the first rank."""
        if self._is_broken or current_rank() != 0:
            return
        try:
            with unnoticed():
                if self._runs is None:
                    self._runs = list(self._open())
                for run in self._runs:
                    run.alert(alert)
        except Exception as error:
            pass_on(error)
            self._is_broken = True
            text = f"findings are not sent to trackers any more: {type(error).__name__}: {error}"
            say(ProblemLine(text.splitlines()[0], slug="tracker-alert"))
