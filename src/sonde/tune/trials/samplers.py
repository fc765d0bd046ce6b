"""The samplers and pruners of a configuration: Optuna's, and Optuna's Gaussian process extended.

The Gaussian process has MindOptimizer's acquisition functions and bounded cost. Optuna's sampler
maximises expected improvement (``ei``). The upper confidence bound (``ucb``) and the probability of
improvement (``pi``) are private in Optuna. Only this module uses them; `missing_parts` names what
the installed Optuna lacks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.samplers import (
    BaseSampler,
    BruteForceSampler,
    CmaEsSampler,
    GPSampler,
    RandomSampler,
    TPESampler,
)
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from sonde.tune.config.search_config import Method, Pruner, Tuner
from sonde.tune.errors import TuneError, require
from sonde.tune.store.outcome import is_bad_region

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

MOST_WHOLE = 100
"""Up to this many trials all are fitted; the cost grows with the cube of their number."""
MOST_OBSERVATIONS = 64
"""With more trials, this many are fitted."""
UCB_WIDTH = 2.576
"""Standard deviations added to the mean, as in MindOptimizer: a 99 % interval."""
BAD_MARGIN = 0.1
"""A trial without a value counts as worse than the worst by this share of the range."""


class Grid(BruteForceSampler):
    """Tries every combination once."""

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Do nothing: Optuna's method stops ``study.optimize``, which the search does not use."""


def make_sampler(tuner: Tuner) -> BaseSampler:
    """Optuna's sampler for a tuner; a `TuneError` if a package that it needs is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        if tuner.name == "gp":
            return _gaussian(tuner)
        if tuner.name == "grid":
            return Grid(seed=tuner.seed)
        if tuner.name == "random":
            return RandomSampler(seed=tuner.seed)
        if tuner.name == "cma-es":
            return _evolution(tuner)
        return TPESampler(
            seed=tuner.seed,
            n_startup_trials=10 if tuner.startup_trials is None else tuner.startup_trials,
            multivariate=True,
            group=True,
        )


def make_pruner(pruner: Pruner) -> BasePruner:
    if pruner.name == "median":
        return MedianPruner(
            n_startup_trials=pruner.startup_trials,
            n_warmup_steps=pruner.warmup_steps,
            interval_steps=pruner.interval_steps,
        )
    if pruner.name == "hyperband":
        return HyperbandPruner(
            min_resource=pruner.min_resource,
            max_resource="auto" if pruner.max_resource is None else pruner.max_resource,
            reduction_factor=pruner.reduction_factor,
        )
    return NopPruner()


def _gaussian(tuner: Tuner) -> BaseSampler:
    for name in ("torch", "scipy"):
        if find_spec(name) is None:
            raise TuneError(
                f"the tuner gp needs {name}: pip install 'sonde[tune]' torch, or use tpe",
                slug="extra-missing",
            )
    lacking = missing_parts(tuner.method)
    if lacking is not None:
        raise TuneError(
            f"this Optuna has no {lacking}, which method {tuner.method} needs; use method ei",
            slug="tune-method",
        )
    return GaussianProcess(tuner.method, tuner.seed, tuner.startup_trials)


def _evolution(tuner: Tuner) -> BaseSampler:
    require("cmaes", "cmaes", "the tuner cma-es")
    return CmaEsSampler(
        seed=tuner.seed,
        n_startup_trials=1 if tuner.startup_trials is None else tuner.startup_trials,
        independent_sampler=TPESampler(seed=tuner.seed),
        warn_independent_sampling=False,
    )


def missing_parts(method: Method) -> str | None:
    """The name that this Optuna lacks for an acquisition function, or None."""
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
    """Fits a bounded number of trials, and learns from trials without a value.

    Diverged and crashed trials count as worse than the worst, pruned ones as their last reported
    value. Optuna leaves such trials out and would propose the same point again and again.
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
        # If all candidates are equally good, Optuna computes 0 / 0.
        with np.errstate(all="ignore"), _one_thread():
            return super().sample_relative(view, asked, search_space)

    def _running(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
        seen: Sequence[FrozenTrial],
    ) -> list[FrozenTrial]:
        """Running trials; for ucb and pi, which do not handle them, with the median as value."""
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
        """The configured acquisition function, on the fitted process."""
        from optuna._gp import acqf as functions

        if self._method == "ei" or not isinstance(acqf, functions.LogEI):
            return acqf
        process = acqf._gpr
        if self._method == "ucb":
            return functions.UCB(process, acqf.search_space, beta=UCB_WIDTH**2)
        return functions.LogPI(process, acqf.search_space, threshold=acqf._threshold)


@contextmanager
def _one_thread() -> Iterator[None]:
    """One torch thread: more do not help on small matrices, and take cores from the trials."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def observations(study: Study) -> list[FrozenTrial]:
    """Every ended trial that is informative, as a complete one with a value."""
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
    """At most ``most`` of them: half are the best, the others cover the space.

    Without the cover the process would forget which regions were tried.
    """
    if len(trials) <= most:
        return list(trials)
    sign = -1.0 if direction == StudyDirection.MAXIMIZE else 1.0
    by_value = sorted(trials, key=lambda one: (sign * float(one.value or 0.0), one.number))
    best, rest = by_value[: most // 2], by_value[most // 2 :]
    places = _places([*best, *rest])
    others = places[len(best) :]
    nearest = np.full(len(rest), np.inf)
    for place in places[: len(best)]:
        nearest = np.minimum(nearest, np.abs(others - place).sum(axis=1))
    kept = list(best)
    for _ in range(most - len(best)):
        farthest = int(np.argmax(nearest))
        kept.append(rest[farthest])
        nearest = np.minimum(nearest, np.abs(others - others[farthest]).sum(axis=1))
        nearest[farthest] = -1.0
    return sorted(kept, key=lambda one: one.number)


def _places(trials: Sequence[FrozenTrial]) -> npt.NDArray[np.float64]:
    """The trials as points in the unit cube; a choice has a dimension for each value."""
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
    """The same point with this value, or as a running trial."""
    state = TrialState.RUNNING if value is None else TrialState.COMPLETE
    return create_trial(
        state=state, value=value, params=trial.params, distributions=trial.distributions
    )
