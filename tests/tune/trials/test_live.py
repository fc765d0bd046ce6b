"""A trial is followed through its log, its reports and its summaries."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.tune.config.search_config import SearchTarget
from sonde.tune.trials.trial_output import (
    Log,
    ReportedValue,
    Series,
    Summaries,
    Tail,
    is_kept,
    target_tag,
)


@given(
    lines=st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=20)),
    cuts=st.lists(st.integers(1, 30), max_size=20),
)
def test_lines_are_found_however_the_file_grows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("tail") / "f"
    tail = Tail(path)
    data = "".join(f"{line}\n" for line in lines).encode()
    found, start = tail.lines(), 0
    for cut in [*cuts, len(data) + 1]:
        with path.open("ab") as file:
            file.write(data[start : start + cut])
        start += cut
        found += tail.lines()
    assert found == [line for line in lines if line]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("loss: 0.25", [0.25]),
        ("epoch: 1 step: 3, loss is 2.5e-3", [0.0025]),
        ("Loss=1, val_loss=2", [1.0]),
        ("train loss 3.5 | eval loss: 4", [3.5, 4.0]),
        ("loss: -1.5.", [-1.5]),
        ("loss: nan", [math.nan]),
        ("loss = -inf", [-math.inf]),
        ("best loss: 0.1", []),
        ("lossy 3", []),
        ("loss is lost", []),
        ("loss 3rd", []),
        ("my.loss 3", []),
    ],
)
def test_the_usual_ways_to_print_a_target_are_understood(line: str, values: list[float]) -> None:
    log = Log(Path("nowhere"), SearchTarget(name="loss"))
    found = [one.value for one in log._in_line(line) if one.is_target]
    assert str(found) == str(values)


def test_a_pattern_may_name_value_and_step() -> None:
    pattern = re.compile(r"e(?P<step>\d+) acc=(?P<value>[\d.]+)")
    log = Log(Path("nowhere"), SearchTarget(name="acc", pattern=pattern))
    (found,) = log._in_line("e12 acc=0.5")
    assert (found.step, found.value) == (12, 0.5)


@pytest.mark.parametrize(
    "line",
    [
        "loss: nan",
        "epoch 3 Loss NaN",
        "epoch 3 loss: nan accuracy: 0.5",
        "loss tensor(nan, grad_fn=<MeanBackward0>)",
        "ValueError: In epoch: 1 step: 3, loss is NAN or INF, training process cannot continue",
    ],
)
def test_a_loss_that_is_nan_is_noticed_whatever_the_target(line: str) -> None:
    log = Log(Path("nowhere"), SearchTarget(name="accuracy", goal="maximize"))
    series = Series(SearchTarget(name="accuracy"))
    series.note(log._in_line(line))
    assert series.non_finite is not None


def test_a_best_loss_that_starts_at_infinity_breaks_nothing() -> None:
    log = Log(Path("nowhere"), SearchTarget(name="loss"))
    series = Series(SearchTarget(name="loss"))
    series.note([*log._in_line("best loss: inf"), *log._in_line("loss: 3")])
    assert series.non_finite is None
    assert series.result() == 3.0


def test_summaries_are_read_by_name_and_only_when_they_change() -> None:
    scalars = {"loss": (10, 0.5), "eval/Accuracy": (10, 0.8), "learning_rate": (10, 0.1)}
    target = SearchTarget(name="accuracy", group="metric", goal="maximize")
    summaries = Summaries(Path("x"), target, lambda path: scalars)
    found = summaries.look(to_end=True)
    assert {(one.name, one.value, one.is_target) for one in found} == {
        ("loss", 0.5, False),
        ("eval/Accuracy", 0.8, True),
    }
    assert summaries.look(to_end=True) == []
    assert target_tag(SearchTarget(name="loss"), {"eval/loss": 1, "loss": 2}) == "loss"


def observed(origin: Any, *values: float, first: int = 1) -> list[ReportedValue]:
    return [
        ReportedValue("loss", one, step, origin, True) for step, one in enumerate(values, first)
    ]


def test_a_report_takes_precedence_over_a_summary_and_a_summary_over_the_log() -> None:
    series = Series(SearchTarget(name="loss"))
    assert series.note(observed("log", 9.0)) == [(1, 9.0)]
    assert series.note(observed("summary", 8.0, first=2)) == [(2, 8.0)]
    assert series.note(observed("report", 7.0, 6.0, first=3)) == [(3, 7.0), (4, 6.0)]
    assert series.note(observed("log", 5.0, first=5)) == []
    assert series.result() == 6.0
    only_log = Series(SearchTarget(name="loss", origin="log"))
    only_log.note([*observed("report", 7.0), *observed("log", 5.0)])
    assert only_log.result() == 5.0


def test_with_keep_best_the_best_value_counts() -> None:
    for goal, expected in (("minimize", 1.0), ("maximize", 3.0)):
        series = Series(SearchTarget(name="loss", goal=goal, keep="best"))  # type: ignore[arg-type]
        series.note(observed("report", 3.0, 1.0, 2.0))
        assert series.result() == expected


def test_steps_that_are_kept_depend_on_the_step_alone_and_are_few() -> None:
    assert all(is_kept(step) for step in range(101))
    assert [step for step in range(101, 200) if is_kept(step)] == list(range(110, 200, 10))
    assert sum(is_kept(step) for step in range(1_000_001)) < 500
    assert is_kept(1_000_000)
    assert not is_kept(-1)  # Optuna takes none


def test_a_step_is_reported_to_the_study_once() -> None:
    series = Series(SearchTarget(name="loss"))
    assert series.note(observed("report", 3.0, 2.0)) == [(1, 3.0), (2, 2.0)]
    assert series.note(observed("report", 1.0)) == []  # step 1 again
    assert series.result() == 1.0
