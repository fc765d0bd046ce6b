"""The tuners: better than random, bounded in cost, and they learn from trials without a value."""

import math
from collections.abc import Callable
from typing import Any

import optuna
import pytest
import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from sonde.tune.config.search_config import METHODS, TUNERS, Method, Pruner, Tuner, TunerName
from sonde.tune.store.outcome import OUTCOME
from sonde.tune.trials.samplers import (
    MOST_OBSERVATIONS,
    GaussianProcess,
    make_pruner,
    make_sampler,
    missing_parts,
    observations,
    thinned,
)

AREA = {"x": FloatDistribution(-5.0, 10.0), "y": FloatDistribution(0.0, 15.0)}


def branin(x: float, y: float) -> float:
    wave = 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10
    return (y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6) ** 2 + wave - 0.397887


def sphere(x: float, y: float) -> float:
    return (x - 1) ** 2 + (y - 1) ** 2


def searched(
    tuner: Tuner,
    trials: int,
    function: Callable[[float, float], float] = branin,
    space: dict[str, FloatDistribution] = AREA,
) -> optuna.Study:
    study = optuna.create_study(sampler=make_sampler(tuner))
    for _ in range(trials):
        trial = study.ask(dict(space))
        study.tell(trial, function(trial.params["x"], trial.params["y"]))
    return study


def done(value: float | None, ending: str = "finished", **values: float) -> FrozenTrial:
    states = {"finished": TrialState.COMPLETE, "failed": TrialState.FAIL}
    return create_trial(
        state=states.get(ending, TrialState.PRUNED),
        value=value,
        params=values,
        distributions={name: FloatDistribution(0.0, 1.0) for name in values},
        user_attrs={OUTCOME: {"ending": ending}},
    )


@pytest.mark.slow
def test_the_gaussian_process_beats_random_search_with_nineteen_of_twenty_seeds() -> None:
    """More functions and methods, and their figures, are in benchmarks/tune.py."""
    space = {"x": FloatDistribution(-5.0, 5.0), "y": FloatDistribution(-5.0, 5.0)}
    gains = []
    for seed in range(20):
        tuner = Tuner("gp", "ucb", seed, startup_trials=4)
        control = searched(Tuner("random", seed=seed), 14, sphere, space).best_value
        gains.append(control / searched(tuner, 14, sphere, space).best_value)
    assert sum(gain > 1 for gain in gains) >= 19
    assert sorted(gains)[9] > 10  # the median: ten times closer to the optimum


@pytest.mark.parametrize("method", METHODS)
def test_every_acquisition_function_finds_better_values_than_it_began_with(method: Method) -> None:
    assert missing_parts(method) is None
    study = searched(Tuner("gp", method, 3), 20)
    random_part = min(one.value or 0.0 for one in study.trials[:10])
    assert study.best_value < random_part / 2


def test_the_acquisition_functions_differ() -> None:
    chosen = {method: searched(Tuner("gp", method, 3), 11).trials[-1].params for method in METHODS}
    assert len({tuple(one.values()) for one in chosen.values()}) == 3


@pytest.mark.parametrize("name", [one for one in TUNERS if one != "grid"])
def test_every_tuner_searches_a_mixed_space(name: TunerName) -> None:
    study = optuna.create_study(sampler=make_sampler(Tuner(name, seed=0)))
    space = {"x": FloatDistribution(1e-4, 1.0, log=True), "c": CategoricalDistribution(("a", "b"))}
    for _ in range(14):
        trial = study.ask(dict(space))
        study.tell(trial, math.log(trial.params["x"]) ** 2 + (trial.params["c"] == "a"))
    assert len(study.trials) == 14


def test_a_grid_visits_every_combination_once() -> None:
    study = optuna.create_study(sampler=make_sampler(Tuner("grid", seed=0)))
    space = {
        "a": CategoricalDistribution((1, 2, 3)),
        "b": CategoricalDistribution(("x", "y")),
    }
    for _ in range(6):
        study.tell(study.ask(dict(space)), 0.0)
    assert len({tuple(one.params.values()) for one in study.trials}) == 6


def test_trials_without_a_value_teach_that_their_region_is_bad() -> None:
    study = optuna.create_study()
    study.add_trials(
        [
            done(1.0, x=0.1),
            done(3.0, x=0.2),
            done(None, "diverged", x=0.9),
            done(None, "failed", x=0.8),
            create_trial(state=TrialState.FAIL, params={}, distributions={}),  # interrupted
        ]
    )
    assert [one.value for one in observations(study)] == [1.0, 3.0, 3.2, 3.2]
    best_is_high = optuna.create_study(direction="maximize")
    best_is_high.add_trials([done(1.0, x=0.1), done(3.0, x=0.2), done(None, "diverged", x=0.9)])
    assert [one.value for one in observations(best_is_high)] == [1.0, 3.0, 0.8]


def test_a_region_that_diverges_is_not_tried_again() -> None:
    study = optuna.create_study(sampler=make_sampler(Tuner("gp", "ei", 1)))
    space = {"x": FloatDistribution(0.0, 1.0)}
    visits = []
    for _ in range(26):
        trial = study.ask(dict(space))
        x = trial.params["x"]
        if x > 0.5:  # where the target would be best, training diverges
            visits.append(trial.number)
            trial.set_user_attr(OUTCOME, {"ending": "diverged"})
            study.tell(trial, state=TrialState.PRUNED)
        else:
            study.tell(trial, 1.0 - x)
    assert sum(number >= 12 for number in visits) <= 5
    assert study.best_value < 0.6


def test_the_process_is_fitted_to_a_bounded_number_of_trials_with_the_best_among_them() -> None:
    trials = [done(float(n), x=(n * 0.618) % 1, y=(n * 0.414) % 1) for n in range(1000)]
    kept = thinned(trials, optuna.study.StudyDirection.MINIMIZE, MOST_OBSERVATIONS)
    values = [one.value for one in kept]
    assert len(kept) == len(set(values)) == MOST_OBSERVATIONS
    assert set(map(float, range(32))) <= set(values)
    cells = {(int(one.params["x"] * 4), int(one.params["y"] * 4)) for one in kept}
    assert len(cells) == 16  # and the rest covers the space
    best_is_high = thinned(trials, optuna.study.StudyDirection.MAXIMIZE, MOST_OBSERVATIONS)
    assert {one.value for one in best_is_high} >= set(map(float, range(968, 1000)))


def test_the_process_is_fitted_in_one_thread_and_others_keep_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = torch.get_num_threads()
    used = []
    chosen = GaussianProcess._optimize_acqf

    def optimize(self: GaussianProcess, acqf: Any, best_params: Any) -> Any:
        used.append(torch.get_num_threads())
        return chosen(self, acqf, best_params)

    monkeypatch.setattr(GaussianProcess, "_optimize_acqf", optimize)
    try:
        torch.set_num_threads(3)
        searched(Tuner("gp", "ucb", 0, startup_trials=2), 4)
        assert used == [1, 1]
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_trials_under_way_are_kept_away_from() -> None:
    for method in ("ei", "ucb"):
        study = searched(Tuner("gp", method, 5), 12)  # type: ignore[arg-type]
        one, two = study.ask(dict(AREA)), study.ask(dict(AREA))
        distance = math.dist(tuple(one.params.values()), tuple(two.params.values()))
        assert distance > 0.1


def test_pruners_are_optunas() -> None:
    assert isinstance(make_pruner(Pruner()), optuna.pruners.NopPruner)
    assert isinstance(make_pruner(Pruner("median")), optuna.pruners.MedianPruner)
    assert isinstance(make_pruner(Pruner("hyperband")), optuna.pruners.HyperbandPruner)
