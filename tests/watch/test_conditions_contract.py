"""Every condition has the same hits live, at a pause with "check now", and from dumps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.adapters.torch.dumping import config
from tests.debugger.driving import driven
from tests.debugger.hub import Hub, RankConnection
from tests.watch.condition_cases import (
    CASES,
    CHANGES,
    CONDITIONS,
    IN_DUMP,
    KEPT,
    ONLY_AS_STEPS_RUN,
    Case,
    Place,
    condition_of,
    train,
)
from tests.watch.ways import next_pause

from sonde.adapters.torch.attach import attach
from sonde.core.statistics import CATEGORIES
from sonde.server.dumps.check import check_dump
from sonde.wire.questions import AskCheck, Checked
from sonde.wire.shapes import ConditionSpec, Hit, WatchpointSpec
from sonde.wire.watchpoints import WatchpointDraft

HIT, MISS = 1, 2
"""The watchpoints of a case."""
Places = dict[str, set[Place]]
"""By verdict."""


def test_every_condition_has_a_case() -> None:
    assert {condition_of(name) for name in CASES} == {*CONDITIONS}


def watchpoints(name: str) -> tuple[WatchpointSpec, ...]:
    case = CASES[name]
    return tuple(
        WatchpointSpec(number, "", (_condition(name, asked),), on, break_after=0)
        for number, asked, on in (
            (HIT, case.hit, case.on),
            (MISS, case.miss, case.miss_on or case.on),
        )
    )


def _condition(name: str, asked: dict[str, float] | str) -> ConditionSpec:
    if isinstance(asked, str):
        return ConditionSpec("expression", {}, asked)
    return ConditionSpec(condition_of(name), asked)


def places(hits: Sequence[Hit], number: int) -> Places:
    """The last that is said of each tensor, in the steps of the training; no tensor has several
    outputs."""
    found: Places = {"hit": set(), "undecided": set()}
    for hit in {hit.number: hit for hit in hits if hit.watchpoint == number}.values():
        assert (hit.slot, hit.io) == (0, "output")
        if hit.step < 4:  # The weights after the last step are not in a dump.
            found[hit.verdict].add((hit.step, hit.op))
    return found


def assert_right(hits: Sequence[Hit], case: Case, also_undecided: Collection[Place] = ()) -> None:
    undecided = {*case.undecided, *also_undecided}
    assert places(hits, HIT) == {"hit": case.hits, "undecided": undecided}
    assert places(hits, MISS) == {"hit": set(), "undecided": set() if case.miss_on else undecided}


@pytest.mark.parametrize("name", CASES)
def test_live(name: str) -> None:
    hub = Hub(paused=False, watchpoints=watchpoints(name))
    _, rank = driven(train, lambda _: None, hub=hub)
    assert_right(rank.hits, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_check_now_at_the_end_of_every_step(name: str) -> None:
    """The watchpoints exist only during the pauses, so that no other way finds the hits."""
    checks: list[Checked] = []

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.keep(*KEPT)
        while not rank.is_over:
            rank.watch(*watchpoints(name))
            checks.append(rank.answer("", AskCheck(), Checked))
            rank.watch()
            rank.control("step")
            next_pause(rank)

    _, rank = driven(train, person, hub=Hub(paused=True))
    if name in ONLY_AS_STEPS_RUN:
        assert rank.hits == []
        assert [each.later for each in checks] == [(HIT, MISS)] * 5
    elif name == "weight_initialization":  # Until the optimizer changes the weights.
        assert_right(rank.hits, CASES[name])
        assert [each.later for each in checks] == [(), *[(HIT, MISS)] * 4]
    else:
        assert_right(rank.hits, CASES[name])
        assert {each.later for each in checks} == {()}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The training as a dump of values, and as one of statistics alone."""
    found = {}
    for saved in ("tensor", "statistic"):
        path = found[saved] = tmp_path_factory.mktemp(saved)
        categories = tuple(CATEGORIES)
        options = config(path, saved_data=saved, statistic_categories=categories)
        with attach(options, starts_at_once=False):
            train()
    return found


def checked(name: str, path: Path) -> list[Hit]:
    drafts = [
        WatchpointDraft("", each.conditions, tuple(IN_DUMP.get(op, op) for op in each.ops))
        for each in watchpoints(name)
    ]
    names = {in_dump: live for live, in_dump in IN_DUMP.items()}
    return [
        msgspec.structs.replace(hit, op=names.get(hit.op, hit.op))
        for hit in check_dump(path, drafts).in_order()
    ]


@pytest.mark.parametrize("name", CASES)
def test_dump(name: str, dumps: dict[str, Path]) -> None:
    also_undecided = {(0, "weight")} if name in CHANGES else set()
    assert_right(checked(name, dumps["tensor"]), CASES[name], also_undecided)


@pytest.mark.parametrize("name", CASES)
def test_dump_of_statistics(name: str, dumps: dict[str, Path]) -> None:
    """Rows of statistics do not tell how single elements changed, or how many are in a range."""
    hits = checked(name, dumps["statistic"])
    if name in CHANGES or name == "activation_range":
        assert {(hit.verdict, hit.why) for hit in hits} == {
            ("undecided", "the dump has only statistics of it, which are not enough")
        }
        assert {hit.watchpoint for hit in hits} == {HIT, MISS}
    else:
        assert_right(hits, CASES[name])
