"""Counts the trials of a search and checks its limits."""

from __future__ import annotations

import time
from collections.abc import Sequence

from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from sonde.tune.config.search_config import TuneConfig
from sonde.tune.store.outcome import best_trial, counts
from sonde.tune.store.ownership import is_abandoned


class Progress:
    """Checks the limits of a search.

    The limit on trials is for the study, not for this process: a killed search continues, and
    machines that run the same command share the trials. The limit on time is for this process.
    """

    def __init__(self, config: TuneConfig, study: Study) -> None:
        self._config = config
        self._study = study
        self._began = time.monotonic()
        is_grid = config.tuner.name == "grid"
        self._grid = len(tuple(config.space.combinations())) if is_grid else None

    @property
    def is_time_up(self) -> bool:
        limit = self._config.limits.time
        return limit is not None and time.monotonic() - self._began > limit

    def trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def done(self) -> int:
        """How many trials have ended."""
        return sum(1 for one in self.trials() if counts(one))

    def why_over(self) -> str | None:
        """The reason to start no further trial, or None."""
        limits = self._config.limits
        trials = self.trials()
        if self.is_time_up:
            return f"the time of {limits.time:g} s is up"
        if limits.trials is not None and len(_taken(trials)) >= limits.trials:
            running = sum(1 for one in trials if one.state == TrialState.RUNNING)
            rest = f", {running} of them still by others" if running else ""
            return f"all {limits.trials} trials are done{rest}"
        if self._grid is not None and self._tried(trials) >= self._grid:
            return f"all {self._grid} combinations of the grid are done"
        return self._why_good_enough(trials)

    def _why_good_enough(self, trials: Sequence[FrozenTrial]) -> str | None:
        limits = self._config.limits
        best = best_trial(trials, self._study.direction)
        if best is None or best.value is None:
            return None
        sign = -1.0 if self._study.direction == StudyDirection.MAXIMIZE else 1.0
        if limits.value is not None and sign * best.value <= sign * limits.value:
            return f"{self._config.target.name} reached {best.value:.6g}"
        since = sum(1 for one in trials if counts(one) and _ended_after(one, best))
        if limits.patience is not None and since >= limits.patience:
            return f"no improvement in {since} trials"
        return None

    def is_surplus(self, number: int) -> bool:
        """Whether the study has enough trials without this one: another process was faster."""
        limit = self._config.limits.trials
        if limit is None:
            return False
        return sum(1 for one in _taken(self.trials()) if one.number < number) >= limit

    def _tried(self, trials: Sequence[FrozenTrial]) -> int:
        names = self._config.space.names
        return len(
            {
                tuple((name, repr(one.params.get(name, "-"))) for name in names)
                for one in _taken(trials)
            }
        )


def _taken(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """The trials that are done or running."""
    return [
        one
        for one in trials
        if counts(one) or (one.state == TrialState.RUNNING and not is_abandoned(one))
    ]


def _ended_after(one: FrozenTrial, other: FrozenTrial) -> bool:
    if one.datetime_complete is None or other.datetime_complete is None:
        return one.number > other.number
    return one.datetime_complete > other.datetime_complete
