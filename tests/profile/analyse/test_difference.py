import numpy as np
from tests.profile.made import op_item, profile

from sonde.profile.analyse.difference import Change, compare_profiles, is_surely_different


def test_noise_is_not_a_difference() -> None:
    random = np.random.default_rng(0)
    before = (1 + 0.1 * random.standard_normal(20)).tolist()
    after = (1.02 + 0.1 * random.standard_normal(20)).tolist()
    assert is_surely_different(before, after) is False
    assert is_surely_different(before, [value * 1.5 for value in after]) is True


def test_one_slow_step_is_not_a_difference() -> None:
    assert is_surely_different([1.0] * 10, [1.0] * 9 + [50.0]) is False


def test_few_steps_give_no_verdict() -> None:
    assert is_surely_different([1.0] * 3, [2.0] * 10) is None


def test_two_profiles_are_compared_by_step_part_and_op() -> None:
    before = profile(0.1, findings=1, ops=[op_item("mm", 0.04), op_item("add", 0.01)])
    after = profile(0.05, ops=[op_item("mm", 0.01), op_item("mm", 0.005), op_item("exp", 0.001)])
    difference = compare_profiles(before, after)
    assert difference.step == Change("step", 0.1, 0.05, True)
    assert difference.step.ratio == 0.5
    assert difference.parts[2] == Change("backward", 0.06, 0.03, True)
    assert difference.parts[0] == Change("data", 0.0, 0.0, False)
    assert [change.name for change in difference.ops] == [
        "mm (forward)",
        "add (forward)",
        "exp (forward)",
    ]
    assert difference.ops[1] == Change("add (forward)", 0.01, 0.0)
    assert (difference.gone, difference.new) == (("needless-cast",), ())
