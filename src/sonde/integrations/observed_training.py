"""Guards and diagnoses a training whose loop belongs to a framework.

A framework calls ``begin`` before the first step and ``end`` after the last one, and takes the
findings in between to write them to its own log. Some frameworks do not say that a training raised
an exception: what is still open is ended when the next training begins, and when the program ends.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

import sonde
from sonde.adapters.torch import private
from sonde.adapters.torch.monitor.guarding import is_running
from sonde.core.finding import Finding
from sonde.core.interruption import pass_on
from sonde.core.running_training import begin_counting_at, register_step_name
from sonde.core.text.problem_line import ProblemLine
from sonde.integrations.trackers.alerts import Alerting, FindingAlerts, alert_of, program_runs
from sonde.logs import say
from sonde.monitor.options import DEFAULT_DIRECTORY, DEFAULT_KEEP, guard_options
from sonde.monitor.signals import Signals
from sonde.monitor.subscribers import subscribe

_OPEN: list[ObservedTraining] = []


class ObservedTraining:
    """The guard and the diagnosis of one training. Used from the thread that trains.

    ``guard`` and ``diagnose`` say what is done; the other options are those of ``sonde.guard``.
    With ``on_trigger="stop"`` the update is skipped and ``should_stop`` set: the framework ends the
    training in its own way. Where a command guards the program already, that guard is used.
    """

    name = "the callback of Sonde"

    def __init__(
        self,
        *,
        guard: bool = True,
        diagnose: bool = False,
        directory: str | os.PathLike[str] = DEFAULT_DIRECTORY,
        keep: int = DEFAULT_KEEP,
        on_trigger: str = "continue",
        triggers: Iterable[str] = (),
        snapshot_every: int = 0,
        repeat_every: int = 0,
        optimizer_state: bool = False,
    ) -> None:
        options: dict[str, Any] = {
            "directory": directory,
            "keep": keep,
            "triggers": (triggers,) if isinstance(triggers, str) else tuple(triggers),
            "snapshot_every": snapshot_every,
            "repeat_every": repeat_every,
            "optimizer_state": optimizer_state,
        }
        guard_options(**options, on_trigger=on_trigger)  # A wrong option is an error at once.
        self._stops = on_trigger == "stop"
        self._guard = {**options, "on_trigger": "skip" if self._stops else on_trigger}
        self._is_guarded = guard
        self._is_diagnosed = diagnose
        self._held: ExitStack | None = None
        self._untold: list[Finding] = []
        self._alerts = FindingAlerts(program_runs)
        self.findings: list[Finding] = []
        self.should_stop = False

    def begin(
        self,
        *,
        steps_done: int | None = None,
        step_name: Callable[[int], str] | None = None,
        trackers: Callable[[], Iterable[Alerting]] = tuple,
    ) -> None:
        """Observe the training that begins now; ``steps_done`` is the number of its first step,
        ``step_name`` returns what the framework's log calls a step, as ``register_step_name``
        takes it, ``trackers`` the runs that get findings beside `program_runs`. A failure is
        reported, and the training goes on unobserved."""
        for left in [*_OPEN]:
            left.end()
        self.findings, self._untold, self.should_stop = [], [], False
        self._alerts = FindingAlerts(lambda: (*trackers(), *program_runs()))
        held = ExitStack()
        try:
            with ExitStack() as entered:
                entered.callback(subscribe(self))
                if step_name is not None:
                    entered.callback(register_step_name(step_name))
                if self._is_guarded and not is_running():
                    entered.enter_context(sonde.guard(**self._guard))
                if self._is_diagnosed:
                    entered.enter_context(sonde.diagnose())
                if steps_done is not None:
                    begin_counting_at(steps_done)
                held = entered.pop_all()
        except Exception as error:
            _report(error, "the training is not observed")
            return
        self._held = held
        _OPEN.append(self)
        atexit.register(self.end)

    def end(self, error: BaseException | None = None) -> None:
        """End the observation, after the last step or because the training raised ``error``."""
        held, self._held = self._held, None
        if held is None:
            return
        _OPEN.remove(self)
        atexit.unregister(self.end)
        close_observation(held, error)

    def stops_any_rank(self, is_any: Callable[[bool], bool]) -> bool:
        """Whether the training should end, which the framework asks after every step on every rank:
        ranks that go on alone would wait for those that have ended. ``is_any`` returns whether its
        argument is true on any rank. ``should_stop`` is the answer afterwards."""
        if self._stops:
            with private.unobserved():
                self.should_stop = is_any(self.should_stop)
        return self.should_stop

    def take(self) -> list[Finding]:
        """The findings since the last call, to be logged."""
        untold, self._untold = self._untold, []
        return untold

    # ------------------------------------------------------------------ as a subscriber

    def measured(self, signals: Signals) -> None:
        """Signals are in the file of the guard."""

    def triggered(self, finding: Finding, kept: Sequence[Path]) -> None:
        self._add(finding, kept)
        if self._stops and finding.severity != "info":
            self.should_stop = True

    def diagnosed(self, finding: Finding) -> None:
        self._add(finding)

    def _add(self, finding: Finding, kept: Sequence[Path] = ()) -> None:
        if any((each.rule, each.step) == (finding.rule, finding.step) for each in self.findings):
            return  # The guard and the diagnosis have found the same.
        self.findings.append(finding)
        self._untold.append(finding)
        self._alerts.send(alert_of(finding, kept))


def on_any_rank(device: Any) -> Callable[[bool], bool]:
    """A function for ``stops_any_rank``; ``device``: where the process group reduces tensors."""

    def is_any(mine: bool) -> bool:
        group = torch.distributed
        if not group.is_available() or not group.is_initialized() or group.get_world_size() == 1:
            return mine
        reduced = torch.tensor(int(mine), device=device)
        group.all_reduce(reduced, group.ReduceOp.MAX)
        return bool(reduced)

    return is_any


def close_observation(held: ExitStack, error: BaseException | None = None) -> None:
    """Leave what observes a training, after the last step or because the training raised ``error``;
    a failure of the observation is reported, not raised."""
    try:
        if error is None:
            held.close()
        else:  # With its traceback, which would be lost otherwise.
            held.__exit__(type(error), error, error.__traceback__)
    except BaseException as raised:
        if raised is not error:
            if not isinstance(raised, Exception):
                raise
            _report(raised, "the end of the observation")


def _report(error: Exception, what: str) -> None:
    pass_on(error)
    text = f"{what}: {type(error).__name__}: {error}"
    say(ProblemLine(text, slug="integration-failed"))
