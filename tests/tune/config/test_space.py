"""Parameters: their values, their conditions, their grids."""

import math
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.core.settings import Problems
from sonde.tune.config.parameters import read_space
from sonde.tune.config.space import SearchParameter, Space
from sonde.tune.config.yaml_lines import located


def space(**parameters: dict[str, Any]) -> Space:
    problems = Problems("test")
    found = read_space(located(parameters), "space", problems)
    problems.raise_if_any()
    return found


def drawn(parameter: SearchParameter, seed: int, count: int = 40) -> list[Any]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    return [parameter.suggest(study.ask()) for _ in range(count)]


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


@given(
    low=st.integers(-1000, 1000),
    width=st.integers(1, 500),
    step=st.integers(1, 50),
    seed=st.integers(0, 2**31),
)
def test_whole_numbers_lie_in_the_half_open_range_and_on_the_step(
    low: int, width: int, step: int, seed: int
) -> None:
    one = space(a={"bounds": [low, low + width], "type": "int", "step": step})["a"]
    for value in drawn(one, seed, 5):
        assert isinstance(value, int)
        assert low <= value < low + width
        assert (value - low) % step == 0
    assert one.candidates() == tuple(range(low, low + width, step))


@given(
    low=st.floats(-10, 10),
    width=st.floats(0.01, 20),
    decimal=st.integers(2, 6),
    seed=st.integers(0, 2**31),
)
def test_decimal_numbers_have_that_many_decimals_and_stay_below_the_bound(
    low: float, width: float, decimal: int, seed: int
) -> None:
    one = space(a={"bounds": [low, low + width], "type": "float", "decimal": decimal})["a"]
    for value in drawn(one, seed, 5):
        assert value == pytest.approx(round(value, decimal), abs=1e-12)
        assert low - 1e-9 <= value < low + width


def test_a_log_scale_draws_each_power_of_ten_equally_often() -> None:
    one = space(a={"bounds": [1e-4, 1], "type": "float", "log": True})["a"]
    powers = [math.floor(math.log10(value)) for value in drawn(one, 0, 800)]
    for power in (-4, -3, -2, -1):
        assert 160 <= powers.count(power) <= 240


def test_a_parameter_exists_only_where_its_condition_holds() -> None:
    found = space(
        momentum={"bounds": [0.5, 0.99], "type": "float", "when": {"optimizer": ["sgd", "rms"]}},
        optimizer={"choice": ["sgd", "adam", "rms"]},
    )
    assert found.names == ("optimizer", "momentum")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    seen = {True: 0, False: 0}
    for _ in range(40):
        values = found.suggest(study.ask())
        assert ("momentum" in values) == (values["optimizer"] != "adam")
        seen["momentum" in values] += 1
    assert min(seen.values()) > 5


def test_a_grid_has_every_combination_that_can_be() -> None:
    grid = space(
        optimizer={"choice": ["sgd", "adam"]},
        rate={"bounds": [0.001, 0.1], "type": "float", "log": True, "points": 3},
        momentum={"choice": [0.5, 0.9], "when": {"optimizer": "sgd"}},
    ).as_grid()
    assert grid["rate"].choices == (0.001, 0.01, 0.1)
    combinations = list(grid.combinations())
    assert len(combinations) == 2 * 3 + 3
    assert len(set(combinations)) == 9
    assert grid.size(5) == 6  # counted one past the limit, no further


def test_true_is_not_one() -> None:
    found = space(
        a={"choice": [1, 2]}, b={"choice": [True, False]}, c={"choice": [0], "when": {"b": True}}
    )
    assert found["c"].is_active({"a": 1, "b": True})
    assert not found["c"].is_active({"a": 1, "b": False})
    assert not found["c"].is_active({"b": 1})
