"""A watchpoint may ask for several steps in a row before a tensor is a hit."""

from __future__ import annotations

import pytest

from sonde.core.keys import TensorKey
from sonde.watch.hits import WatchpointHit
from sonde.watch.streaks import Streaks
from sonde.watch.watchpoint import Watch, make_watches
from sonde.wire.shapes import ConditionSpec, WatchpointSpec


def watch(**parameters: float) -> Watch:
    condition = ConditionSpec("tensor_all_zero", parameters)
    (made,) = make_watches([WatchpointSpec(1, "zeros", (condition,))], 0, ())
    return made


def hit(step: int, dtype: str = "float32", op: str = "Default/relu-op0") -> WatchpointHit:
    return WatchpointHit(
        rule="tensor_all_zero",
        severity="warning",
        message="",
        status="supported",
        where=TensorKey(step, 0, op, "output", 0),
        watchpoint=1,
        dtype=dtype,
        shape=(2,),
        verdict="hit",
    )


def reported(steps: list[int], met: list[int], wanted: int) -> list[int]:
    """The steps whose hit is reported, of those in which the condition was met."""
    streaks, found = Streaks(), []
    for step in steps:
        streaks.begin_step(step)
        admitted = streaks.admit(hit(step), watch(steps_in_a_row=wanted)) if step in met else None
        if admitted is not None:
            found.append(step)
            assert "steps in a row" in admitted.message
    return found


@pytest.mark.parametrize(
    ("steps", "met", "found"),
    [
        (range(10), [4, 5, 7, 8, 9], [9]),
        (range(6), [0, 1, 2, 3], [2, 3]),
        ([0, 10, 20, 30], [0, 10, 20, 30], [20, 30]),
        (range(9), [0, 2, 4, 6, 8], []),
    ],
)
def test_a_row_begins_again_after_a_step_without(
    steps: range, met: list[int], found: list[int]
) -> None:
    assert reported(list(steps), met, 3) == found


def test_a_step_is_counted_once_and_tensors_separately() -> None:
    streaks, twice = Streaks(), watch(steps_in_a_row=2)
    streaks.begin_step(0)
    assert streaks.admit(hit(0), twice) is None
    assert streaks.admit(hit(0), twice) is None
    streaks.begin_step(1)
    assert streaks.admit(hit(1, op="Default/tanh-op0"), twice) is None
    assert streaks.admit(hit(1), twice) is not None


def test_a_step_in_which_a_weight_is_left_alone_neither_counts_nor_ends_a_row() -> None:
    streaks, twice = Streaks(), watch(steps_in_a_row=2)
    streaks.begin_step(0)
    streaks.admit(hit(0), twice)
    streaks.begin_step(1)
    streaks.carry([twice], "Default/relu-op0")
    streaks.begin_step(2)
    assert streaks.admit(hit(2), twice) is not None


def test_without_parameters_every_hit_is_reported_as_it_is() -> None:
    assert Streaks().admit(hit(0), watch()) == hit(0)


@pytest.mark.parametrize(
    ("dtype", "counts"),
    [("float32", True), ("bfloat16", True), ("complex64", True), ("int64", False), ("bool", False)],
)
def test_floats_only(dtype: str, counts: bool) -> None:
    assert (Streaks().admit(hit(0, dtype), watch(floats_only=1)) is not None) == counts
