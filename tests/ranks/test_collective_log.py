"""Collectives of a group are compared call by call, and so are their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sonde.ranks.collectives import CollectiveLog
from sonde.ranks.hang import describe_hang
from sonde.ranks.report import CollectiveReport, CollectiveResult, StackReport


@dataclass
class Job:
    """Two ranks that call collectives."""

    log: CollectiveLog

    def call(self, rank: int, sequence: int, kind: str = "all_reduce", count: int = 4) -> list[str]:
        report = CollectiveReport(
            rank, "world", sequence, kind, "float32", count, "", -1, f"t.py:{rank}", 3
        )
        return [each.message for each in self.log.add(report)]

    def result(self, rank: int, sequence: int, given: int, got: tuple[int, ...]) -> list[str]:
        report = CollectiveResult(rank, "world", sequence, (given,), got)
        return [each.message for each in self.log.add_result(report)]


def job() -> Job:
    log = CollectiveLog()
    assert list(log.know({"world": (0, 1)})) == []
    return Job(log)


def test_different_sizes_are_reported_with_both_lines_once() -> None:
    two = job()
    assert two.call(0, 0) == []
    (found,) = two.call(1, 0, count=5)
    assert "all_reduce of 4 float32 at t.py:0" in found
    assert "all_reduce of 5 float32 at t.py:1" in found
    assert two.call(0, 1) == []
    assert two.call(1, 1, kind="barrier") == []


def test_rank_may_be_ahead() -> None:
    two = job()
    assert [two.call(0, number) for number in range(100)] == [[]] * 100
    assert [two.call(1, number) for number in range(100)] == [[]] * 100
    assert list(two.log.waiting()) == []


def test_sizes_of_all_to_all_may_differ() -> None:
    two = job()
    assert two.call(0, 0, "all_to_all", 4) == []
    assert two.call(1, 0, "all_to_all", 9) == []


def test_all_reduce_with_different_results_names_the_rank() -> None:
    two = job()
    for rank in (0, 1):
        two.call(rank, 0)
    assert two.result(0, 0, 1, (5,)) == []
    (found,) = two.result(1, 0, 2, (6,))
    assert "rank 1 has another result" in found


def test_all_gather_with_the_chunk_of_another_rank_is_wrong() -> None:
    two = job()
    for rank in (0, 1):
        two.call(rank, 0, "all_gather")
    assert two.result(0, 0, 1, (1, 2)) == []
    (found,) = two.result(1, 0, 2, (2, 1))
    assert "rank 1 has not got what the other ranks gave" in found


@pytest.mark.parametrize("kind", ["all_gather", "gather", "scatter"])
def test_empty_tensors_have_no_hash(kind: str) -> None:
    """Rank 1 gives, or gets, a tensor without elements."""
    two = job()
    for rank in (0, 1):
        report = CollectiveReport(rank, "world", 0, kind, "float32", 4, "", 0, "t.py:1", 3)
        assert list(two.log.add(report)) == []
    given: dict[int, tuple[int, ...]] = {0: (7,), 1: ()}
    got: dict[int, tuple[int, ...]] = {0: (7, 0), 1: (7, 0)}
    if kind == "scatter":
        given, got = {0: (7, 0), 1: ()}, {0: (7,), 1: ()}
    elif kind == "gather":
        got[1] = ()
    for rank in (0, 1):
        assert (
            list(two.log.add_result(CollectiveResult(rank, "world", 0, given[rank], got[rank])))
            == []
        )


def summed(
    got: float, *, dtype: str = "float32", reduce: str = "SUM", norm: float = 9.0
) -> list[str]:
    """Ranks that gave 3 and 4, as their projections say, and have all got the same."""
    two = job()
    found = []
    for rank in (0, 1):
        report = CollectiveReport(rank, "world", 0, "all_reduce", dtype, 4, reduce, -1, "t.py:7", 3)
        list(two.log.add(report))
    for rank in (0, 1):
        given, result = (3.0 + rank, norm), (got, norm)
        report_ = CollectiveResult(rank, "world", 0, (rank + 1,), (5,), given, result)
        found += [each.message for each in two.log.add_result(report_)]
    return found


@pytest.mark.parametrize("got", [4.0, 3.0, 0.0, 3.5])
def test_all_reduce_that_loses_what_a_rank_gave_is_wrong_on_all_ranks(got: float) -> None:
    (found,) = summed(got)
    assert "ranks 0-1 have not got the sum of what they gave" in found


@pytest.mark.parametrize(
    ("got", "more"),
    [
        (7.0, {}),
        (7.00002, {}),
        (7.5, {"dtype": "bfloat16"}),
        (3.5, {"reduce": "AVG"}),
        (4.0, {"reduce": "MAX"}),
        (4.0, {"dtype": "int64"}),
        (float("nan"), {}),
        (7.0, {"norm": float("inf")}),
    ],
)
def test_sum_that_is_right_up_to_rounding_or_not_known_is_silent(
    got: float, more: dict[str, Any]
) -> None:
    assert summed(got, **more) == []


def test_mean_that_is_a_sum_is_wrong() -> None:
    (found,) = summed(7.0, reduce="AVG")
    assert "the mean of what they gave" in found


def test_all_to_all_gives_each_rank_its_parts() -> None:
    two = job()
    for rank in (0, 1):
        two.call(rank, 0, "all_to_all")
        two.call(rank, 1, "all_to_all")

    def result(rank: int, sequence: int, given: tuple[int, ...], got: tuple[int, ...]) -> list[str]:
        report = CollectiveResult(rank, "world", sequence, given, got)
        return [each.message for each in two.log.add_result(report)]

    assert result(0, 0, (1, 2), (1, 3)) == []
    assert result(1, 0, (3, 4), (2, 4)) == []
    assert result(0, 1, (1, 2), (1, 3)) == []
    (found,) = result(1, 1, (3, 4), (1, 4))
    assert "rank 1 has not got what the other ranks gave" in found


def test_hang_names_who_waits_for_whom() -> None:
    two = job()
    two.call(0, 0)
    stacks = {rank: StackReport(rank, f"t.py:{10 + rank}", ("a", "b")) for rank in (0, 1)}
    found = describe_hang(two.log, stacks, {0: 3, 1: 3}, {}, 61.0)
    assert "rank 0 waits in all_reduce #0 at t.py:0 for rank 1" in found.message
    assert found.evidence["ranks_at"] == [
        "rank 0: ended step 3, stands at t.py:10, last collective all_reduce #0 at t.py:0",
        "rank 1: ended step 3, stands at t.py:11",
    ]


def test_hang_after_a_rank_ended_says_so() -> None:
    two = job()
    found = describe_hang(two.log, {}, {0: 3, 1: 2}, {1: "its process has ended"}, 61.0)
    assert "rank 1 has ended" in found.message
    assert found.rank == 1
