"""Hits are numbered, bounded and remembered."""

from __future__ import annotations

from typing import Literal

import msgspec

from sonde.debugger.hits import MOST_PER_STEP, MOST_REMEMBERED, REMINDED_AFTER, HitCollector
from sonde.watch.origins import Origin
from sonde.wire.shapes import Hit, TensorType


def hit(
    op: str, *, verdict: Literal["hit", "undecided"] = "hit", why: str = "", watchpoint: int = 1
) -> Hit:
    type_ = TensorType("float32", (2,))
    return Hit(0, watchpoint, "c", 0, 3, 0, op, "output", 0, type_, verdict, why, ())


def test_numbers_count_from_none_in_the_order_they_were_met() -> None:
    book = HitCollector()
    assert [book.add(hit(name)) for name in "abc"] == [1, 2, 3]
    assert [(each.number, each.op) for each in book.take()] == [(0, "a"), (1, "b"), (2, "c")]
    assert list(book.take()) == []


def test_a_flood_is_counted_not_sent() -> None:
    book = HitCollector()
    for number in range(MOST_PER_STEP + 25):
        book.add(hit(f"op{number}"))
    book.add(hit("other", watchpoint=2))
    assert len(book.take()) == MOST_PER_STEP + 1
    book.end_step()
    (surplus,) = book.take()
    assert (surplus.op, surplus.count) == (f"op{MOST_PER_STEP}", 25)
    assert book.totals == {1: MOST_PER_STEP + 25, 2: 1}


def test_hits_of_a_harmless_origin_are_taken_back_also_those_only_counted() -> None:
    book = HitCollector()
    harmless = Origin(1, "op", 0, "log", "log", None, is_unexpected=False)
    for number in range(MOST_PER_STEP + 5):
        book.add(hit(f"op{number}"), harmless)
    book.settle(lambda origin: "no fault")
    book.end_step()
    assert {each.verdict for each in book.take()} == {"undecided"}
    assert book.totals == {1: 0}


def test_what_cannot_be_decided_is_told_once_for_each_reason_and_not_at_every_step() -> None:
    book = HitCollector()
    for name, why in (("a", "NaN"), ("b", "NaN"), ("c", "no value"), ("d", "NaN")):
        assert book.add(hit(name, verdict="undecided", why=why)) == 0
    assert list(book.take()) == []
    book.end_step()
    assert [(each.op, each.why, each.count) for each in book.take()] == [
        ("a", "NaN", 3),
        ("c", "no value", 1),
    ]
    told = []
    for step in range(4, 3 + 2 * REMINDED_AFTER + 1):
        book.add(msgspec.structs.replace(hit("a", verdict="undecided", why="NaN"), step=step))
        book.end_step()
        told += [each.step for each in book.take()]
    assert told == [3 + REMINDED_AFTER, 3 + 2 * REMINDED_AFTER]


def test_nan_in_the_way_are_one_reason_however_many() -> None:
    book = HitCollector()
    for number, words in enumerate(("3 NaN", "12 NaN and 1 -Inf", "1 +Inf")):
        why = f"the tensor has {words} among {20 + number} elements"
        book.add(hit(f"op{number}", verdict="undecided", why=why))
    former = "its value of the step before had 1 NaN among 4 elements"
    book.add(hit("weight", verdict="undecided", why=former))
    book.end_step()
    assert [(each.why, each.count) for each in book.take()] == [
        ("the tensor has 3 NaN among 20 elements", 3),
        (former, 1),
    ]


def test_only_the_latest_are_remembered() -> None:
    book = HitCollector()
    for number in range(MOST_REMEMBERED + 10):
        book.add(hit(str(number)))
        book.take()
        book.end_step()
    book.take()
    assert len(book.remembered) == MOST_REMEMBERED
    assert book.remembered[-1].number == MOST_REMEMBERED + 9


def test_what_was_undecided_when_somebody_asked_is_told_when_it_is_decided() -> None:
    book = HitCollector()
    assert book.tell([hit("mask", verdict="undecided", why="it may be a mask")]) == 0
    assert book.tell([hit("mask", verdict="undecided", why="it may be a mask")]) == 0
    assert book.add(hit("mask")) == 1
    assert [each.verdict for each in book.take()] == ["undecided", "hit"]


def test_a_hit_that_somebody_asked_about_is_not_told_again() -> None:
    book = HitCollector()
    assert book.tell([hit("weight")]) == 1
    assert book.tell([hit("weight")]) == 0
    assert book.add(hit("weight")) == 1
    assert [each.op for each in book.take()] == ["weight"]
    assert book.tell([hit("weight")]) == 0
