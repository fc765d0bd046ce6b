"""``sonde.tune.search``: the same search over a function."""

from pathlib import Path
from typing import Any

import pytest

import sonde.tune
from sonde.core.errors import ConfigError
from sonde.tune import StudyListing, TuneError, report, search, suggest
from sonde.tune.config.search_config import Pruner

X = {"x": {"bounds": [0, 1], "type": "float"}}


def quadratic(parameters: Any) -> float:
    return (parameters.x - 0.3) ** 2


def test_the_best_value_is_found_and_everything_is_listed() -> None:
    found = search(quadratic, X, trials=30, tuner="random", seed=0)
    assert isinstance(found, StudyListing)
    assert len(found.trials) == 30
    best = min(found.trials, key=lambda one: one.value or 0.0)
    assert found.best_trial == best
    assert best.value == (best.parameters["x"] - 0.3) ** 2
    assert (found.goal, found.parameters[0].name) == ("minimize", "x")
    upwards = search(quadratic, X, trials=30, tuner="random", seed=0, goal="maximize")
    assert upwards.best_trial is not None
    assert upwards.best_trial.value == max(one.value or 0.0 for one in upwards.trials)


def test_the_parameter_that_matters_is_the_important_one() -> None:
    space = {**X, "y": {"bounds": [0, 1], "type": "float"}}
    found = search(
        lambda p: (p.x - 0.3) ** 2 + 0.001 * p.y, space, trials=60, tuner="random", seed=0
    )
    shares = dict(found.importance)
    assert shares["x"] > 0.9
    assert sum(shares.values()) == pytest.approx(1)


def test_limits_end_it() -> None:
    good = search(quadratic, X, trials=None, value=0.01, tuner="random", seed=0)
    assert good.best_trial is not None
    assert good.best_trial.value is not None
    assert good.best_trial.value <= 0.01
    assert all((one.value or 1) > 0.01 for one in good.trials[:-1])
    tired = search(lambda p: 1.0, X, trials=None, patience=5, tuner="random")
    assert len(tired.trials) == 6
    assert len(search(quadratic, X, trials=100, seconds=1e-9).trials) == 0


def test_a_study_that_is_kept_is_continued_and_shared(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    first = search(quadratic, X, trials=3, tuner="random", storage=url)
    second = search(quadratic, X, trials=5, tuner="random", storage=url)
    assert second.trials[:3] == first.trials
    assert len(second.trials) == 5
    assert sonde.tune.read_study(url).trials == second.trials


def test_reports_feed_the_pruner() -> None:
    def slow(parameters: Any) -> None:
        for step in range(10):
            report(parameters.x, step=step)

    found = search(
        slow, X, trials=20, tuner="random", seed=1, pruner=Pruner("median", startup_trials=3)
    )
    states = [one.state for one in found.trials]
    assert states.count("pruned") >= 4
    assert found.best_trial is not None
    assert len(found.best_trial.course) == 10
    pruned = next(one for one in found.trials if one.state == "pruned")
    assert len(pruned.course) < 10
    assert pruned.reason.startswith("not promising at step")


def test_a_function_may_bring_parts_of_its_space() -> None:
    def train(parameters: Any) -> float:
        width = suggest("width", 8, choice=[1, 2, 4])
        assert suggest("width", 8, choice=[1, 2, 4]) == width  # the same again
        assert suggest("x") == parameters.x
        assert suggest("elsewhere", 5) == 5
        return float(parameters.x * width)

    found = search(train, X, trials=12, tuner="tpe", seed=0)
    assert {one.parameters["width"] for one in found.trials} == {1, 2, 4}
    assert suggest("width", 8) == 8  # outside, the default


def test_an_exception_of_the_function_ends_the_search() -> None:
    def fails(parameters: Any) -> float:
        raise RuntimeError("no data")

    with pytest.raises(RuntimeError, match="no data"):
        search(fails, X, trials=3)
    with pytest.raises(TuneError, match=r"returned None and reported nothing.*\[tune-report\]"):
        search(lambda p: None, X, trials=3, tuner="random")


def test_a_nan_is_a_divergence_and_not_a_result() -> None:
    found = search(
        lambda p: float("nan") if p.x > 0.5 else p.x,
        X,
        trials=12,
        tuner="random",
        seed=0,
        explain=False,
    )
    assert {one.state for one in found.trials} == {"finished", "diverged"}
    assert all((one.parameters["x"] > 0.5) == (one.state == "diverged") for one in found.trials)


def test_mistakes_in_the_space_are_all_reported() -> None:
    with pytest.raises(ConfigError) as caught:
        search(quadratic, {"x": {"bounds": [1, 0], "type": "float"}, "y": {}})
    assert [error.message for error in caught.value.problems] == [
        "search(): space.x.bounds [1, 0) is empty: the second must be greater",
        "search(): space.y has neither 'bounds' nor 'choice'; it takes one of them",
    ]
    with pytest.raises(TuneError, match="tuner 'annealing' is not one of gp, tpe"):
        search(quadratic, X, tuner="annealing")
    with pytest.raises(TuneError, match="a grid needs 'points'"):
        search(quadratic, X, tuner="grid")
