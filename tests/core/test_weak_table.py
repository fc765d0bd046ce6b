"""Tables of objects that do not keep them alive."""

from __future__ import annotations

import gc
import sys
import weakref
from types import FrameType

import pytest

from sonde.core.weak_table import WeakTable


class Thing:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing)

    def __hash__(self) -> int:
        return 0


def test_values_are_found_by_the_object_itself() -> None:
    table: WeakTable[Thing, int] = WeakTable()
    one, other = Thing(), Thing()
    table[one] = 1
    assert table.get(one) == 1
    assert one in table
    assert other not in table
    assert table.get(other) is None
    table[one] = 2
    table[other] = 3
    assert list(table) == [one, other]
    assert table.values() == [2, 3]


def test_an_object_that_dies_leaves_the_table() -> None:
    table: WeakTable[Thing, int] = WeakTable()
    kept = Thing()
    table[kept] = 0
    for number in range(50):  # addresses are used again
        table[Thing()] = number
    gc.collect()
    assert [each is kept for each in table] == [True]
    assert len(table) == 1
    assert table.values() == [0]


@pytest.mark.parametrize("kind", [WeakTable, weakref.WeakKeyDictionary])
def test_no_python_code_runs_when_an_object_dies(kind: type) -> None:
    """Python would ignore what a signal handler raises in it; its own tables run such code."""
    table = kind()
    things = [Thing()]
    table[things[0]] = 1
    ran: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            ran.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    things.clear()
    sys.setprofile(before)
    assert ran == ([] if kind is WeakTable else ["remove"])
    assert not list(table)
