"""The Gaussian process: Optuna's, with the document's acquisition functions and bounded cost.

Optuna's sampler maximises expected improvement (``ei``); the upper confidence bound (``ucb``) and
the probability of improvement (``pi``) are in Optuna too, but not for its sampler's users. This is
the one place that reaches for them; `missing_parts` tells when an Optuna lacks them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import GPSampler, TPESampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from sonde.tune.store.outcome import is_bad_region

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from sonde.tune.config.search_config import Method

MOST_WHOLE = 100
"""Up to how many trials the process is fitted to all of them; its cost grows with their cube."""
MOST_OBSERVATIONS = 64
"""To how many of them otherwise."""
UCB_WIDTH = 2.576
"""MindOptimizer's: mean plus so many standard deviations, the upper end of a 99 % interval."""
BAD_MARGIN = 0.1
"""A trial without a value counts as worse than the worst, by this share of the values' range."""


def missing_parts(method: Method) -> str | None:
    """What this Optuna lacks for an acquisition function; None if nothing."""
    if method == "ei":
        return None
    try:
        from optuna._gp import acqf
    except ImportError:
        return "optuna._gp.acqf"
    wanted = {"ucb": "UCB", "pi": "LogPI"}[method]
    if not hasattr(acqf, wanted):
        return f"optuna._gp.acqf.{wanted}"
    return None if hasattr(GPSampler, "_optimize_acqf") else "GPSampler._optimize_acqf"


class GaussianProcess(GPSampler):
    """Fits a bounded number of trials, and learns from those that gave no value.

    Diverged and crashed trials count as worse than the worst seen, pruned ones as their last live
    value. Left out, as Optuna does, the same point would be proposed again and again.
    """

    def __init__(self, method: Method, seed: int | None, startup_trials: int | None) -> None:
        super().__init__(
            seed=seed,
            independent_sampler=TPESampler(seed=seed),
            n_startup_trials=10 if startup_trials is None else startup_trials,
            warn_independent_sampling=False,
        )
        self._method = method
        self._seen: list[FrozenTrial] = []

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        self._seen = observations(study)
        space = optuna.search_space.intersection_search_space(self._seen) if self._seen else {}
        return {name: one for name, one in sorted(space.items()) if not one.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            return {}
        seen = [one for one in self._seen if search_space.keys() <= one.params.keys()]
        running = self._running(study, trial, search_space, seen)
        view = optuna.create_study(direction=study.direction, storage=None)
        if len(seen) > MOST_WHOLE:
            seen = thinned(seen, study.direction, MOST_OBSERVATIONS)
        view.add_trials([*seen, *running])
        view.add_trial(create_trial(state=TrialState.RUNNING))
        asked = view.get_trials(deepcopy=False)[-1]
        # Where all candidates are equally good, 0 / 0 is met.
        with np.errstate(all="ignore"), _one_thread():
            return super().sample_relative(view, asked, search_space)

    def _running(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
        seen: Sequence[FrozenTrial],
    ) -> list[FrozenTrial]:
        """Trials under way; where the acquisition cannot wait for them, with an assumed value."""
        found = [
            one
            for one in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            if one.number != trial.number and search_space.keys() <= one.params.keys()
        ]
        values = sorted(one.value for one in seen if one.value is not None)
        if self._method == "ei" or not values:
            return [_copy(one, None) for one in found]
        return [_copy(one, values[len(values) // 2]) for one in found]

    def _optimize_acqf(self, acqf: Any, best_params: Any) -> Any:
        return super()._optimize_acqf(self._chosen(acqf), best_params)

    def _chosen(self, acqf: Any) -> Any:
        """The acquisition function that was asked for, on the process just fitted."""
        from optuna._gp import acqf as functions

        if self._method == "ei" or not isinstance(acqf, functions.LogEI):
            return acqf
        process = acqf._gpr
        if self._method == "ucb":
            return functions.UCB(process, acqf.search_space, beta=UCB_WIDTH**2)
        return functions.LogPI(process, acqf.search_space, threshold=acqf._threshold)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch in one thread: on matrices this small others only wait, on cores that trials need."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def observations(study: Study) -> list[FrozenTrial]:
    """Every finished trial that teaches something, as a complete one with a value."""
    states = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
    trials = study.get_trials(deepcopy=False, states=states)
    values = [
        one.value for one in trials if one.state == TrialState.COMPLETE and one.value is not None
    ]
    if not values:
        return []
    margin = BAD_MARGIN * ((max(values) - min(values)) or abs(values[0]) or 1.0)
    is_maximized = study.direction == StudyDirection.MAXIMIZE
    bad = min(values) - margin if is_maximized else max(values) + margin
    found = []
    for one in trials:
        if one.state == TrialState.COMPLETE:
            found.append(one)
        elif is_bad_region(one):
            found.append(_copy(one, bad))
        elif one.state == TrialState.PRUNED and one.intermediate_values:
            found.append(_copy(one, one.intermediate_values[max(one.intermediate_values)]))
    return found


def thinned(
    trials: Sequence[FrozenTrial], direction: StudyDirection, most: int
) -> list[FrozenTrial]:
    """At most ``most`` of them: half of that the best, half those that cover the space best.

    The cover keeps the process sure of what has been tried, so that it need not try it again.
    """
    if len(trials) <= most:
        return list(trials)
    sign = -1.0 if direction == StudyDirection.MAXIMIZE else 1.0
    by_value = sorted(trials, key=lambda one: (sign * float(one.value or 0.0), one.number))
    best, rest = by_value[: most // 2], by_value[most // 2 :]
    places = _places([*best, *rest])
    chosen = np.zeros(len(rest), dtype=bool)
    near = np.full(len(rest), np.inf)
    for one in places[: len(best)]:
        near = np.minimum(near, np.abs(places[len(best) :] - one).sum(axis=1))
    for _ in range(most - len(best)):
        farthest = int(np.argmax(np.where(chosen, -1.0, near)))
        chosen[farthest] = True
        distance = np.abs(places[len(best) :] - places[len(best) + farthest]).sum(axis=1)
        near = np.minimum(near, distance)
    kept = [one for one, is_chosen in zip(rest, chosen, strict=True) if is_chosen]
    return sorted((*best, *kept), key=lambda one: one.number)


def _places(trials: Sequence[FrozenTrial]) -> npt.NDArray[np.float64]:
    """The trials as points of the unit cube; a choice has a dimension for each value."""
    space = optuna.search_space.intersection_search_space(list(trials))
    columns: list[list[float]] = []
    for name, one in sorted(space.items()):
        if isinstance(one, CategoricalDistribution):
            columns += [
                [float(trial.params[name] == choice) / 2 for trial in trials]
                for choice in one.choices
            ]
        elif isinstance(one, FloatDistribution | IntDistribution):
            scale = math.log if one.log else float
            low, high = scale(one.low), scale(one.high)
            width = (high - low) or 1.0
            columns.append([(scale(trial.params[name]) - low) / width for trial in trials])
    return np.array(columns, dtype=np.float64).reshape(len(columns), len(trials)).T


def _copy(trial: FrozenTrial, value: float | None) -> FrozenTrial:
    """The same point with this value, or as one that is running."""
    state = TrialState.RUNNING if value is None else TrialState.COMPLETE
    return create_trial(
        state=state, value=value, params=trial.params, distributions=trial.distributions
    )
