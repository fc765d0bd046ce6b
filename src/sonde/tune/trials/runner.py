"""Runs the trials of a search, several at a time, and stores in the study how they ended."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from optuna.exceptions import OptunaError
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from sonde.tune.config.search_config import TuneConfig
from sonde.tune.errors import TuneError
from sonde.tune.store.outcome import DIRECTORY, OWNER, record, state_of
from sonde.tune.store.ownership import ask_signed, recover, requeue, signature
from sonde.tune.trials.command import CommandTemplate
from sonde.tune.trials.progress import Progress
from sonde.tune.trials.trial import Result, RunningTrial
from sonde.tune.trials.trial_output import ScalarReader
from sonde.tune.trials.trial_process import kill_leftovers, new_directory

HEARTBEAT_SECONDS = 60.0
MOST_FAILURES_AT_START = 3
"""After so many failed trials and no finished one, the search ends: the command does not work."""
_STATES = {
    "finished": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "diverged": TrialState.PRUNED,
    "failed": TrialState.FAIL,
    "timeout": TrialState.FAIL,
}


class Listener(Protocol):
    """Follows the progress of a search. Called by the search's thread."""

    def polled(self, running: list[RunningTrial]) -> None: ...

    def ended(self, running: RunningTrial, result: Result) -> None: ...

    def requeued(self, trials: list[FrozenTrial]) -> None: ...


@dataclass(slots=True, eq=False)
class Runner:
    """Runs trials of one study until a limit is reached. One thread; `run` may be called once."""

    _config: TuneConfig
    _study: Study
    _template: CommandTemplate
    _listener: Listener
    _: KW_ONLY
    read_scalars: ScalarReader | None = None
    is_watched: bool = False
    is_interrupted: Callable[[], bool] = lambda: False
    progress: Progress = field(init=False)
    _running: list[RunningTrial] = field(default_factory=list)
    _failures: list[str] = field(default_factory=list)
    _heartbeat_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.progress = Progress(self._config, self._study)

    def run(self) -> str:
        """Run the search; returns the reason for its end.

        When it is interrupted or its time is up, running trials are stopped and queued again for
        the search that continues this one.
        """
        self._recover()
        try:
            while True:
                why_over = self._fill()
                if why_over is not None and (not self._running or self.progress.is_time_up):
                    return why_over
                self._poll()
                if self.is_interrupted():
                    raise KeyboardInterrupt
        finally:
            for one in self._running:
                one.stop()
            for one in self._running:
                one.interrupt()
                with contextlib.suppress(OptunaError, ValueError, RuntimeError):
                    requeue(self._study, one.trial, is_attempt=False)

    def _recover(self) -> None:
        """Requeue the trials of killed searches, and kill what still runs of them."""
        requeued = recover(self._study)
        for trial in requeued:
            is_local = trial.user_attrs.get(OWNER, {}).get("host") == socket.gethostname()
            if is_local and DIRECTORY in trial.user_attrs:
                kill_leftovers(Path(trial.user_attrs[DIRECTORY]))
        self._listener.requeued(requeued)

    def _fill(self) -> str | None:
        """Start trials up to the limit of parallel ones; the reason if no more are started."""
        while len(self._running) < self._config.parallel and not self.is_interrupted():
            why_over = self.progress.why_over()
            if why_over is not None:
                return why_over
            self._start()
        return "the time is up" if self.progress.is_time_up else None

    def _start(self) -> None:
        trial = ask_signed(self._study)
        try:
            values = self._config.space.suggest(trial)
        except ValueError as error:  # the study has another space under this name
            self._study.tell(trial, state=TrialState.FAIL)
            raise TuneError(
                f"the study {self._study.study_name!r} was made with another space: {error}; give "
                "another 'study' or 'summary_base_dir'",
                slug="tune-study",
            ) from None
        if self.progress.is_surplus(trial.number):
            record(trial, "surplus")
            self._study.tell(trial, state=TrialState.FAIL)
            return
        directory = new_directory(self._config.directory, trial.number)
        trial.set_user_attr(DIRECTORY, str(directory))
        running = RunningTrial(
            trial,
            values,
            self._template,
            self._config,
            directory,
            read_scalars=self.read_scalars,
            is_watched=self.is_watched,
        )
        self._running.append(running)

    def _poll(self) -> None:
        """Poll each running trial once."""
        for running in tuple(self._running):
            result = running.poll()
            if result is not None:
                self._running.remove(running)
                self._tell(running, result)
                self._listener.ended(running, result)
                self._check_failures(result)
        self._listener.polled(self._running)
        if time.monotonic() - self._heartbeat_at > HEARTBEAT_SECONDS:
            self._heartbeat_at = time.monotonic()
            for running in self._running:
                running.trial.set_user_attr(OWNER, signature())
        if self._running:
            youngest = min(one.seconds for one in self._running)
            time.sleep(min(0.01 + youngest / 50, 0.2))

    def _tell(self, running: RunningTrial, result: Result) -> None:
        record(
            running.trial,
            result.ending,
            seconds=round(running.seconds, 3),
            command=self._template.render(running.values, None).text(),
            reason=result.reason,
            origin=None if result.origin is None else asdict(result.origin),
        )
        self._study.tell(running.trial, result.value, state=_STATES[result.ending])

    def _check_failures(self, result: Result) -> None:
        if result.ending != "failed":
            return
        self._failures.append(result.reason)
        if len(self._failures) < MOST_FAILURES_AT_START:
            return
        if not any(state_of(one) in ("finished", "pruned") for one in self.progress.trials()):
            raise TuneError(
                f"the first {len(self._failures)} trials failed, the last with {self._failures[-1]}"
                f" (see {self._config.directory}); does the command run by itself?",
                slug="tune-all-failed",
            )
