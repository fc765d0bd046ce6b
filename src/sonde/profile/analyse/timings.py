"""How long each op of the learned graph took in each profiled step, and what was between them."""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sonde.core.graph import Graph, OpNode
from sonde.profile.analyse.event_matching import name_events
from sonde.profile.analyse.intervals import Interval, Intervals, length, subtract, union
from sonde.profile.analyse.split import PARTS, Part, Split, split_step
from sonde.profile.analyse.traces import StepTrace

_LONGEST_WAY = 100_000  # nanoseconds
_MANY = 4
_APART: tuple[Part, ...] = ("data", "collectives")
_TRAINING: tuple[Part, ...] = ("forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A profiled step with its ops named and its time dealt out."""

    trace: StepTrace
    names: dict[int, OpNode]
    split: Split


@dataclass(slots=True)
class OpTimes:
    """One op of the graph over the steps: nanoseconds it took, and those spent getting to it."""

    node: OpNode
    part: Part
    own: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)

    @property
    def usual_seconds(self) -> float:
        """The median of its own time: one disturbed step does not show."""
        return statistics.median(self.own) / 1e9

    @property
    def usual_cost_seconds(self) -> float:
        """What a step is usually shorter without it: own time and the way to it.

        A long gap is time in other Python code, not in the op.
        """
        ways = (min(before, _LONGEST_WAY) for before in self.before)
        return statistics.median(map(sum, zip(self.own, ways, strict=True))) / 1e9


@dataclass(slots=True)
class Unnamed:
    """Events that are no op of the graph, by name."""

    own: int = 0
    calls: int = 0
    part: Part = "rest"


@dataclass(frozen=True, slots=True)
class Timings:
    """All steps together.

    ``usual_seconds`` is an undisturbed step: the sum of the medians of its parts.
    On a busy machine every step is interrupted somewhere, each elsewhere; medians do not see that.
    """

    steps: tuple[TimedStep, ...]
    ops: dict[str, OpTimes]
    unnamed: dict[tuple[str, Part], Unnamed]
    usual_seconds: float

    @property
    def count(self) -> int:
        return len(self.steps)

    @property
    def seconds(self) -> float:
        """The mean of the steps."""
        return sum(step.trace.seconds for step in self.steps) / len(self.steps)

    @property
    def usual_step(self) -> TimedStep:
        """The step whose length is the (lower) median."""
        ordered = sorted(self.steps, key=lambda step: step.trace.seconds)
        return ordered[(len(ordered) - 1) // 2]

    def part_seconds(self, part: Part) -> float:
        """The mean over the steps."""
        return sum(step.split.seconds(part) for step in self.steps) / len(self.steps)

    def usual_part_seconds(self, part: Part) -> float:
        """The median over the steps, or the medians of its ops together if that is less."""
        whole = statistics.median(step.split.seconds(part) for step in self.steps)
        if part in _APART or part == "rest":
            return whole
        return min(whole, _named_seconds(self.ops, (part,), self.count) or whole)

    def steady_part_seconds(self, part: Part) -> float:
        """The mean over the steps but the longest: what comes back counts, a single stall not."""
        seconds = sorted(step.split.seconds(part) for step in self.steps)
        return statistics.mean(seconds[:-1] if len(seconds) >= _MANY else seconds)

    def mean_seconds(self, nanoseconds: Iterable[int]) -> float:
        """Summed over all steps, a step's share of it."""
        return sum(nanoseconds) / 1e9 / len(self.steps)


def time_steps(traces: Sequence[StepTrace], graph: Graph | None) -> Timings:
    """Name and split each step, and add up what its ops took."""
    steps = []
    ops: dict[str, OpTimes] = {}
    unnamed: dict[tuple[str, Part], Unnamed] = {}
    for trace in traces:
        names = name_events(trace.main, graph)
        step = TimedStep(trace, names, split_step(trace, names))
        steps.append(step)
        _add_step(step, ops, unnamed)
    return Timings(tuple(steps), ops, unnamed, _usual_seconds(steps, ops))


def _usual_seconds(steps: Sequence[TimedStep], ops: dict[str, OpTimes]) -> float:
    whole = statistics.median(step.trace.seconds for step in steps)
    waits = sum(statistics.median(step.split.seconds(part) for step in steps) for part in _APART)
    idle = statistics.median(length(idle_rest(step)) for step in steps) / 1e9
    others = tuple(part for part in PARTS if part not in _APART)
    named = _named_seconds(ops, others, len(steps))
    return min(whole, waits + idle + named) if named > 0 else whole


def _named_seconds(ops: dict[str, OpTimes], parts: tuple[Part, ...], steps: int) -> float:
    """The medians of the ops in some parts, each as often as it came."""
    return sum(
        times.usual_cost_seconds * len(times.own) / steps
        for times in ops.values()
        if times.part in parts
    )


def idle_rest(step: TimedStep) -> Intervals:
    """The rest of a step in which neither an op runs nor torch.compile compiles."""
    main = step.trace.main
    busy = union(
        [
            *step.trace.compiling,
            *(
                (e.start, e.end)
                for e in map(main.events.__getitem__, main.roots())
                if not e.is_range
            ),
        ]
    )
    return subtract(step.split.spans["rest"], busy)


def _add_step(
    step: TimedStep, ops: dict[str, OpTimes], unnamed: dict[tuple[str, Part], Unnamed]
) -> None:
    spans = _flat(step.split)
    begins = [begin for begin, _, _ in spans]
    foreign = _foreign_roots(step)
    at = 0
    previous = step.trace.begin
    for index in sorted(step.names):
        event = step.trace.main.events[index]
        node = step.names[index]
        begin, _, part = spans[max(0, bisect.bisect_right(begins, event.start) - 1)]
        between = event.start - max(previous, begin)
        while at < len(foreign) and foreign[at][0] < event.start:
            # Another op ran on the way here; it has a row of its own.
            if foreign[at][0] >= max(previous, begin):
                between -= foreign[at][1] - foreign[at][0]
            at += 1
        times = ops.get(node.name)
        if times is None:
            times = ops[node.name] = OpTimes(node, part)
        times.own.append(event.end - event.start)
        times.before.append(max(0, between) if part in _TRAINING else 0)
        previous = event.end
    _add_unnamed(step, unnamed)


def _flat(split: Split) -> list[tuple[int, int, Part]]:
    return sorted((begin, end, part) for part, spans in split.spans.items() for begin, end in spans)


def _foreign_roots(step: TimedStep) -> list[Interval]:
    """Ops at the top of the profile that the graph does not have."""
    main = step.trace.main
    named = _ancestors_of_named(step)
    return [
        (main.events[index].start, main.events[index].end)
        for index in main.roots()
        if index not in step.names and index not in named and not main.events[index].is_range
    ]


def _ancestors_of_named(step: TimedStep) -> set[int]:
    found: set[int] = set()
    for index in step.names:
        parent = step.trace.main.parents[index]
        while parent >= 0 and parent not in found:
            found.add(parent)
            parent = step.trace.main.parents[parent]
    return found


def _add_unnamed(step: TimedStep, unnamed: dict[tuple[str, Part], Unnamed]) -> None:
    """Own time of events that neither are nor lie in an op of the graph, nor hold one."""
    main = step.trace.main
    above = _ancestors_of_named(step)
    belongs: list[bool] = []
    for index, event in enumerate(main.events):
        parent = main.parents[index]
        is_named = index in step.names or (parent >= 0 and belongs[parent])
        belongs.append(is_named)
        if is_named or index in above or event.is_range:
            continue
        part = step.split.part_at(event.start)
        row = unnamed.setdefault((event.name, part), Unnamed(part=part))
        row.own += main.own[index]
        row.calls += 1
