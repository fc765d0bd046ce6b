"""Asserts that every way found what is right, and the same."""

from __future__ import annotations

import re
from collections import Counter

from tests.watch import ways
from tests.watch.expected import Fault
from tests.watch.ways import Verdict

GRADIENTS = "gradient_exploding"
STEP = re.compile(
    r"^sonde: (?P<what>.*?) in step (?P<step>\d+), (forward|backward|optimizer),", re.M
)
ORIGIN = re.compile(r" at \S+:(?P<line>\d+)( \(in [^)]*\))? `[^`]*` \((?P<op>[^ ,)]+)")
"""The last in the sentence: the op that infinities come from follows the one that made NaN."""


def assert_right(live: Verdict, fault: Fault | None) -> None:
    """The faults, and nothing else, are the origins of hits."""
    found = live.hits["tensor_overflow"]
    if fault is None:
        assert live.hits == {condition: frozenset() for condition in ways.CONDITIONS}
        return
    assert min(hit.step for hit in found) >= fault.step
    origins = {hit.origin for hit in found}
    assert fault.op in origins
    others = {each for each in origins if each != fault.op}
    assert {each.rpartition("/")[2] for each in others if each} == {*fault.others}
    producers = {hit.op for hit in found if hit.part == "producer"}
    assert producers <= origins


def assert_same(live: Verdict, dumped: Verdict) -> None:
    for condition in ("tensor_overflow", "operator_overflow", "weight_overflow"):
        assert live.hits[condition] == dumped.hits[condition], condition
    # A gradient has a name of its own in the debugger; in a dump it is the output of its op.
    counts = [
        Counter((hit.step, hit.part, hit.origin) for hit in each.hits[GRADIENTS])
        for each in (live, dumped)
    ]
    assert counts[0] == counts[1]


def assert_overflow(overflow: ways.Overflow, live: Verdict, fault: Fault | None) -> None:
    for hit in live.hits["tensor_overflow"]:
        role, origin = overflow.entries[hit.step, hit.op]
        assert (role, origin) == (hit.part, hit.origin)
    step, said = STEP.search(overflow.said), [*ORIGIN.finditer(overflow.said)]
    if fault is None:
        assert step is None
    else:
        assert step is not None
        found = (int(step["step"]), said[-1]["op"], int(said[-1]["line"]))
        assert found == (fault.step, fault.op, fault.line)
