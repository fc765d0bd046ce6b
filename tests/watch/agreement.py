"""Asserts that every way found what is right, and the same."""

from __future__ import annotations

import re
from collections import Counter

from tests.watch import ways
from tests.watch.expected import Fault
from tests.watch.ways import Found, Verdict

from sonde.core.graph import shown_name

GRADIENTS = "gradient_exploding"
STEP = re.compile(
    r"^sonde: (?P<what>.*?) in step (?P<step>\d+), (forward|backward( of \w+)?|optimizer),", re.M
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
        found, in_dump = map(in_first_steps, (live.hits[condition], dumped.hits[condition]))
        assert found.keys() == in_dump.keys(), condition
        # The debugger also counts in the step that the program did not end, which no dump has.
        more = {hit: found[hit] - in_dump[hit] for hit in found}
        assert all(0 <= more[hit] <= (hit.part == "carrier") for hit in found), more
    # A gradient has a name of its own in the debugger; in a dump it is the output of its op.
    counts = [
        Counter((hit.step, hit.part, hit.origin) for hit in each.hits[GRADIENTS])
        for each in (live, dumped)
    ]
    assert counts[0] == counts[1]


def in_first_steps(hits: frozenset[Found]) -> dict[Found, int]:
    """Each hit with the number of steps. The debugger counts a tensor that gets NaN or Inf from the
    same op again, the check of a dump lists it in every step."""
    first: dict[tuple[object, ...], Found] = {}
    steps: Counter[Found] = Counter()
    for hit in sorted(hits, key=lambda hit: hit.step):
        at = hit.step if hit.part == "producer" else "every step"
        known = first.setdefault((at, hit.op, hit.slot, hit.part, hit.origin), hit)
        steps[known] += hit.count
    return steps


def assert_overflow(overflow: ways.Overflow, dumped: Verdict, fault: Fault | None) -> None:
    for hit in dumped.hits["tensor_overflow"]:
        role, origin = overflow.entries[hit.step, hit.op]
        assert (role, origin) == (hit.part, hit.origin)
    step, said = STEP.search(overflow.said), [*ORIGIN.finditer(overflow.said)]
    if fault is None:
        assert step is None
    else:
        assert step is not None
        found = (int(step["step"]), said[-1]["op"], int(said[-1]["line"]))
        assert found == (fault.step, shown_name(fault.op), fault.line)
