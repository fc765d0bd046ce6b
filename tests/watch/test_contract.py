"""The same training gives the same findings live, at a pause, as overflow dump, and from a dump.

``docs/origins.md`` has the rules that the expected findings follow from.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.watch import ways
from tests.watch.agreement import assert_overflow, assert_right, assert_same
from tests.watch.expected import FAULTS
from tests.watch.ways import SCENARIOS

# Scenario 35 takes the variance of one row on purpose, which is NaN; torch warns of it.
pytestmark = pytest.mark.filterwarnings(r"ignore:var\(\). degrees of freedom is <= 0:UserWarning")
NAMES = sorted(path.stem for path in SCENARIOS.glob("*.py"))


def test_every_fault_belongs_to_a_scenario() -> None:
    assert FAULTS.keys() < {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_every_way_gives_the_same_findings(name: str, tmp_path: Path) -> None:
    training = ways.script(name)
    live, checks, steps = ways.live(training)
    assert_right(live, FAULTS.get(name))
    assert [check.hits for check in checks] == [0] * len(checks)
    dumped = ways.dumped(training, tmp_path / "dump", steps)
    assert_same(live, dumped)
    assert_overflow(ways.overflowing(training, tmp_path / "overflow"), dumped, FAULTS.get(name))
