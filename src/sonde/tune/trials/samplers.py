"""The tuners and pruners of a configuration, as Optuna's."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec

from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, BruteForceSampler, CmaEsSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from sonde.tune.config.search_config import Pruner, Tuner
from sonde.tune.errors import TuneError
from sonde.tune.trials.gaussian import GaussianProcess, missing_parts


class Grid(BruteForceSampler):
    """Every combination once. When all are done it says nothing: the search counts them itself."""

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Optuna's would stop a loop that is not its own."""


def make_sampler(tuner: Tuner) -> BaseSampler:
    """Optuna's sampler for a tuner; `TuneError` when what it needs is not installed."""
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
    missing = [name for name in ("torch", "scipy") if find_spec(name) is None]
    if missing:
        raise TuneError(
            f"the tuner gp needs {missing[0]}: pip install 'sonde[tune]' torch, or use tpe",
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
    if find_spec("cmaes") is None:
        raise TuneError(
            "the tuner cma-es needs cmaes: pip install 'sonde[tune]'", slug="extra-missing"
        )
    return CmaEsSampler(
        seed=tuner.seed,
        n_startup_trials=1 if tuner.startup_trials is None else tuner.startup_trials,
        independent_sampler=TPESampler(seed=tuner.seed),
        warn_independent_sampling=False,
    )
