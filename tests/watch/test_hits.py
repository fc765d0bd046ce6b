"""Hits are numbered, bounded and remembered."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from sonde.core.keys import TensorKey
from sonde.watch.conditions import Reason
from sonde.watch.hits import (
    MOST_PER_STEP,
    MOST_REMEMBERED,
    REMINDED_AFTER,
    HitCollector,
    WatchpointHit,
)
from sonde.watch.origins import Origin


def hit(
    op: str,
    *,
    verdict: Literal["hit", "undecided"] = "hit",
    why: str = "",
    reason: Reason | None = None,
    watchpoint: int = 1,
    step: int = 3,
) -> WatchpointHit:
    return WatchpointHit(
        rule="c",
        severity="warning",
        message=why,
        status="supported",
        where=TensorKey(step, 0, op, "output", 0),
        rank=0,
        watchpoint=watchpoint,
        dtype="float32",
        shape=(2,),
        verdict=verdict,
        reason=reason or Reason("no_statistics", why),
    )


def test_numbers_count_from_none_in_the_order_they_were_met() -> None:
    collector = HitCollector()
    assert [collector.add(hit(name)) for name in "abc"] == [1, 2, 3]
    assert [(each.number, each.where.op) for each in collector.take()] == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
    ]
    assert list(collector.take()) == []


def test_a_flood_is_counted_not_sent() -> None:
    collector = HitCollector()
    for number in range(MOST_PER_STEP + 25):
        collector.add(hit(f"op{number}"))
    collector.add(hit("other", watchpoint=2))
    assert len(collector.take()) == MOST_PER_STEP + 1
    collector.end_step()
    (surplus,) = collector.take()
    assert (surplus.where.op, surplus.count) == (f"op{MOST_PER_STEP}", 25)
    assert collector.totals == {1: MOST_PER_STEP + 25, 2: 1}


def test_hits_of_a_harmless_origin_are_taken_back_also_those_only_counted() -> None:
    collector = HitCollector()
    harmless = Origin(1, "op", 0, "log", "log", None, is_unexpected=False)
    for number in range(MOST_PER_STEP + 5):
        collector.add(hit(f"op{number}"), harmless)
    collector.end_ops()
    collector.end_step()
    assert {each.verdict for each in collector.take()} == {"undecided"}
    assert collector.totals == {1: 0}


def test_undecided_results_are_reported_once_for_each_reason_and_not_at_every_step() -> None:
    collector = HitCollector()
    for name, why in (("a", "NaN"), ("b", "NaN"), ("c", "no value"), ("d", "NaN")):
        assert collector.add(hit(name, verdict="undecided", why=why)) == 0
    assert list(collector.take()) == []
    collector.end_step()
    assert [(each.where.op, each.message, each.count) for each in collector.take()] == [
        ("a", "NaN", 3),
        ("c", "no value", 1),
    ]
    reported = []
    for step in range(4, 3 + 2 * REMINDED_AFTER + 1):
        collector.add(hit("a", verdict="undecided", why="NaN", step=step))
        collector.end_step()
        reported += [each.where.step for each in collector.take()]
    assert reported == [3 + REMINDED_AFTER, 3 + 2 * REMINDED_AFTER]


def test_nan_in_the_way_are_one_reason_however_many() -> None:
    collector = HitCollector()
    for number, words in enumerate(("3 NaN", "12 NaN and 1 -Inf", "1 +Inf")):
        why = f"the tensor has {words} among {20 + number} elements"
        collector.add(hit(f"op{number}", verdict="undecided", why=why, reason=Reason("non_finite")))
    former = "its value of the step before had 1 NaN among 4 elements"
    reason = Reason("previous_non_finite")
    collector.add(hit("weight", verdict="undecided", why=former, reason=reason))
    collector.end_step()
    assert [(each.message, each.count) for each in collector.take()] == [
        ("the tensor has 3 NaN among 20 elements", 3),
        (former, 1),
    ]


def test_only_the_latest_are_remembered() -> None:
    collector = HitCollector()
    for number in range(MOST_REMEMBERED + 10):
        collector.add(hit(str(number)))
        collector.take()
        collector.end_step()
    collector.take()
    assert len(collector.remembered) == MOST_REMEMBERED
    assert collector.remembered[-1].number == MOST_REMEMBERED + 9


def test_a_result_that_was_undecided_at_a_check_is_reported_when_it_is_decided() -> None:
    collector = HitCollector()
    assert collector.add_checked([hit("mask", verdict="undecided", why="it may be a mask")]) == 0
    assert collector.add_checked([hit("mask", verdict="undecided", why="it may be a mask")]) == 0
    assert collector.add(hit("mask")) == 1
    assert [each.verdict for each in collector.take()] == ["undecided", "hit"]


def test_undecided_results_of_a_check_are_one_entry_with_a_count() -> None:
    collector = HitCollector()
    reason = Reason("non_finite")
    found = [hit(name, verdict="undecided", why="NaN", reason=reason) for name in ("a", "b", "c")]
    for _ in range(2):
        assert collector.add_checked(found) == 0
    for each in found:
        collector.add(each)
    collector.end_step()
    assert [(each.where.op, each.count) for each in collector.take()] == [("a", 3)]


def test_a_hit_of_a_check_is_not_reported_again() -> None:
    collector = HitCollector()
    assert collector.add_checked([hit("weight")]) == 1
    assert collector.add_checked([hit("weight")]) == 0
    assert collector.add(hit("weight")) == 1
    assert [each.where.op for each in collector.take()] == ["weight"]
    assert collector.add_checked([hit("weight")]) == 0


def carrier(op: str, step: int) -> WatchpointHit:
    return replace(hit(op, step=step), part="carrier", origin="log-op0")


def test_the_tensors_that_got_nan_from_a_known_origin_are_counted_in_later_steps() -> None:
    collector = HitCollector()
    origin = Origin(1, "op", 3, "log-op0", "log", None, is_fault=True)
    key = ("log-op0", 1, "mul-op0", "output", 0)
    assert not collector.count_carrier(key, 3)  # It is not known yet.
    collector.add(carrier("mul-op0", 3), origin)
    assert not collector.count_carrier(key, 3)  # The same step: another result.
    collector.end_step()
    assert [each.count for each in collector.take()] == [1]
    sent = []
    for step in range(4, 404):
        assert collector.count_carrier(key, step)
        collector.end_step()
        sent += collector.take()
    collector.report_counts()
    sent += collector.take()
    assert collector.totals[1] == 401
    assert {(each.number, each.where.step) for each in sent} == {(0, 3)}
    assert (len(sent), sent[-1].count) == (9, 401)
    collector.forget(1)
    assert not collector.count_carrier(key, 404)
