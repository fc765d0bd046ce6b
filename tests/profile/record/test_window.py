import pytest

from sonde.core.errors import UsageError
from sonde.profile.record.window import StepWindow, parse_window


def test_a_window_is_a_slice_whose_first_step_is_not_timed() -> None:
    window = parse_window(" 5:15 ")
    assert window == StepWindow(5, 15)
    assert (4 in window, 5 in window, 14 in window, 15 in window) == (False, True, True, False)
    assert (window.first_timed, str(window)) == (6, "5:15")


def test_a_single_step_is_named_and_timed_at_once() -> None:
    assert parse_window("7:8").first_timed == 7


@pytest.mark.parametrize("text", ["", "5", "5-15", "a:b", "5:", ":5", "-1:4", "5:15:2"])
def test_an_invalid_slice_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a range such as 5:15"):
        parse_window(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [("5:5", "5:15"), ("15:5", "5:15"), ("9:5", "5:9"), ("1:0", "1:11"), ("0:0", "0:10")],
)
def test_an_empty_window_is_refused_with_one_that_is_not(text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"contains no step; try {hint}"):
        parse_window(text)


def test_step_0_alone_is_refused() -> None:
    with pytest.raises(UsageError, match="preparations"):
        parse_window("0:1")
