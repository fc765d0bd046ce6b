"""Values within a budget."""

from __future__ import annotations

import numpy as np

from sonde.core.keys import Io
from sonde.debugger.values.cache import CachedTensor, ValueCache

OUT: Io = "output"


def tensor(step: int, elements: int = 10) -> CachedTensor:
    return CachedTensor(step, np.full(elements, step, np.float64), "float64")


def test_the_latest_is_found_without_a_step() -> None:
    kept = ValueCache(1000)
    for step in (3, 5, 4):
        kept.put(("a", OUT, 0), tensor(step))
    found = kept.find(("a", OUT, 0), None)
    assert found is not None
    assert found.step == 5
    assert kept.steps(("a", OUT, 0)) == (3, 4, 5)
    assert kept.find(("a", OUT, 0), 2) is None
    assert kept.find(("a", OUT, 1), None) is None


def test_the_one_that_was_used_longest_ago_goes_first() -> None:
    kept = ValueCache(240)
    for name in "abc":
        kept.put((name, OUT, 0), tensor(0))
    assert kept.find(("a", OUT, 0), 0) is not None
    kept.put(("d", OUT, 0), tensor(0))
    there = [name for name in "abcd" if kept.find((name, OUT, 0), 0) is not None]
    assert there == ["a", "c", "d"]
    assert kept.used_bytes == 240
    assert kept.dropped == 1


def test_a_value_larger_than_the_budget_is_not_kept_and_evicts_nothing() -> None:
    kept = ValueCache(100)
    kept.put(("a", OUT, 0), tensor(0))
    kept.put(("b", OUT, 0), tensor(0, elements=13))
    assert kept.find(("a", OUT, 0), 0) is not None
    assert kept.find(("b", OUT, 0), 0) is None


def test_only_so_many_steps_of_one_place() -> None:
    kept = ValueCache(10_000)
    for step in range(5):
        kept.put(("a", OUT, 0), tensor(step), most_steps=2)
    assert kept.steps(("a", OUT, 0)) == (3, 4)
    assert kept.used_bytes == 160


def test_a_repeated_step_replaces_the_first() -> None:
    kept = ValueCache(1000)
    kept.put(("a", OUT, 0), tensor(1))
    kept.put(("a", OUT, 0), tensor(1, elements=2))
    assert kept.used_bytes == 16


def test_a_smaller_budget_makes_room_at_once() -> None:
    kept = ValueCache(1000)
    for step in range(5):
        kept.put(("a", OUT, 0), tensor(step))
    kept.set_budget(100)
    assert kept.steps(("a", OUT, 0)) == (4,)


def test_an_array_kept_for_two_places_counts_once_and_stays_for_the_last() -> None:
    kept = ValueCache(170)
    shared = tensor(0)
    kept.put(("a", OUT, 0), shared)
    kept.put(("b", "input", 1), shared)
    assert kept.used_bytes == 80
    kept.put(("a", OUT, 0), tensor(1), most_steps=1)
    assert kept.used_bytes == 160
    assert kept.find(("a", OUT, 0), 0) is None
    assert kept.find(("b", "input", 1), 0) is shared
    kept.set_budget(80)
    assert kept.used_bytes == 80
    kept.set_budget(0)
    assert kept.used_bytes == 0
