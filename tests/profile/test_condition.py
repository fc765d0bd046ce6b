import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profile.made import profile

from sonde.core.errors import UsageError
from sonde.profile.condition import QUANTITIES, parse_condition, quantities
from sonde.profile.document import Profile, save_profile


def load(path: Path) -> Profile:
    return {"base.json": profile(0.1), "runs/old-1.json": profile(0.05)}[str(path)]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("step_time > 1.2 * base.json", False),
        ("step_time > 0.9 * base.json", True),
        ("step_time > base.json", False),
        ("step_time >= base.json", True),
        ("step_time > 1.9*runs/old-1.json", True),
        ("step_time > 2 * 'runs/old-1.json' + 1ms", False),
        ("step_time > 99ms", True),
        ("step_time > 0.101 s", False),
        ("(forward) * 2 < 81ms", True),
        ("forward + backward == step_time", True),
        ("-step_time < -0.05", True),
        ("peak_memory <= 1MiB", True),
        ("peak_memory >= 1 GiB", False),
        ("findings != 0", True),
        ("data / 2 > 0", False),
        ("jitter > 5%", False),
    ],
)
def test_a_condition_is_arithmetic_and_one_comparison(text: str, holds: bool) -> None:
    assert parse_condition(text, load).holds(profile(0.1, findings=2)) is holds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no quantity"),
        ("step_time", "is a number, not a question"),
        ("step_time > ", "invalid syntax|too early"),
        ("step_time > 1e999", "inf is not a number"),
        ("step_time > 1 2", "invalid syntax"),
        ("step_time + 1", "is a number, not a question"),
        ("1 > 2", "names no quantity"),
        ("step_tim > 2", "'step_tim' is none of them"),
        ("step_time > (1", "was never closed"),
        ("step_time > 1 ; 2", "has ';' in it"),
        ("forward + backward > base.json", "not clear which"),
        ("step_time > * 2", "can't use starred expression|invalid syntax"),
        ("__import__('os').system('x') > step_time", "has '.' in it|the functions are"),
        ("(" * 400 + "step_time" + ")" * 400 + " > 1", "cannot be used"),
    ],
)
def test_an_invalid_condition_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_condition(text, load)


def test_division_by_zero_is_a_mistake_not_a_crash() -> None:
    with pytest.raises(UsageError, match="divides by zero"):
        parse_condition("1 / data > step_time", load).holds(profile())


@given(st.text(alphabet="step_timedata()*/+-<>=1.2 '\"[]{}lambda:", max_size=40))
def test_any_text_is_a_condition_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_condition(text, lambda path: profile()).holds(profile())


def test_a_missing_baseline_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no profile can be read"):
        parse_condition(f"step_time > {tmp_path}/gone.json")


def test_a_baseline_is_a_file_or_a_directory(tmp_path: Path) -> None:
    save_profile(profile(0.08), tmp_path / "profile.json")
    assert parse_condition(f"step_time > 1.2 * {tmp_path}/").holds(profile(0.1))
    assert parse_condition(f"step_time > 1.2 * '{tmp_path}/profile.json'").holds(profile(0.1))


def test_every_quantity_is_one_of_a_profile() -> None:
    assert tuple(quantities(profile())) == QUANTITIES
    assert parse_condition("step_time > 1").describe(profile(0.1)).endswith("(it is 0.1)")
