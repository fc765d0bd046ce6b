"""Two ranks give the same findings in every way, each for itself.

A rank that gets NaN from the other has them from the collective: see ``docs/origins.md``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.watch import rank_ways
from tests.watch.agreement import assert_overflow, assert_right, assert_same
from tests.watch.expected import Fault
from tests.watch.ways import SCENARIOS, verdict

from sonde.wire.shapes import Hit

pytestmark = pytest.mark.slow

BUCKET = "Gradients/Default/network-Linear/c10d_allreduce_-op0"
FAULTS: dict[str, tuple[Fault | None, Fault | None]] = {
    "01_nan_on_one_rank": (None, Fault(1, "Default/log-op0", 13)),
    "02_gradients": (Fault(1, "Default/log-op0", 13), Fault(1, BUCKET, 14)),
    "03_shared_statistic": (
        Fault(1, "Default/sqrt-op0", 14),
        Fault(1, "Default/c10d_allreduce_-op0", 15),
    ),
    "04_gathered": (
        Fault(1, "Default/log-op0", 14),
        Fault(1, "Default/c10d_allgather_-op0", 16),
    ),
    "05_fsdp_mixed_precision": (None, None),
    "06_buckets_of_gradients": (None, None),
}
"""The fault of each rank."""
UNFILLED = ("05_fsdp_mixed_precision", "06_buckets_of_gradients")
"""Scenarios whose only NaN are in memory that is not filled yet."""
STEPS = {0, 1, 2}


def test_every_scenario_has_its_faults() -> None:
    assert {path.stem for path in (SCENARIOS / "ranks").glob("*.py")} == {*FAULTS}


@pytest.mark.parametrize("name", FAULTS)
def test_every_way_gives_the_same_findings(name: str, tmp_path: Path) -> None:
    live, checks = rank_ways.live(name)
    assert [check.hits for check in checks] == [0] * 6
    dumped = rank_ways.dumped(name, tmp_path / "dump")
    overflow = rank_ways.overflowing(name, tmp_path / "overflow")
    for rank, fault in enumerate(FAULTS[name]):
        found, in_dump = verdict(live[rank], STEPS), verdict(dumped[rank], STEPS)
        assert_right(found, fault)
        assert_same(found, in_dump)
        assert_overflow(overflow[rank], in_dump, fault)
        for hits in (live[rank], dumped[rank]):
            assert_says_whether_another_rank_made_them(hits)
        if name in UNFILLED:
            assert not found.undecided
            assert not overflow[rank].entries
            assert "by mistake" not in overflow[rank].said


def assert_says_whether_another_rank_made_them(hits: list[Hit]) -> None:
    for hit in hits:
        if hit.part == "producer":
            is_collective = hit.op.rpartition("/")[2].startswith("c10d_")
            assert hit.why.endswith("; another rank may have made them") == is_collective
