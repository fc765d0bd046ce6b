"""How long each op of the learned graph took in each profiled step, and the time between ops."""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sonde.core.graph import Graph, OpNode
from sonde.profile.analyse.event_matching import inherited, name_events
from sonde.profile.analyse.intervals import Intervals, length, subtract, union
from sonde.profile.analyse.split import PARTS, Part, Split, split_step
from sonde.profile.analyse.traces import StepTrace

_LONGEST_GAP = 100_000  # nanoseconds
_MANY = 4
WAITS: tuple[Part, ...] = ("data", "collectives")
"""The parts in which the training thread waits."""
_TRAINING: tuple[Part, ...] = ("forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A profiled step; ``names`` has the op of each matched event, by the event's index."""

    trace: StepTrace
    names: dict[int, OpNode]
    split: Split


@dataclass(slots=True)
class OpTimes:
    """One op of the graph in all steps: nanoseconds in the op, and in Python before it."""

    node: OpNode
    part: Part
    own: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)

    @property
    def usual_seconds(self) -> float:
        """The median of its own time, which one disturbed step does not affect."""
        return statistics.median(self.own) / 1e9

    @property
    def usual_cost_seconds(self) -> float:
        """How much shorter a step usually is without it: own time and the time before it.

        A long gap before an op is time in other Python code, so it is capped.
        """
        gaps = (min(before, _LONGEST_GAP) for before in self.before)
        return statistics.median(map(sum, zip(self.own, gaps, strict=True))) / 1e9


@dataclass(frozen=True, slots=True)
class Timings:
    """All steps together.

    ``unnamed`` has the own nanoseconds of events that match no op, by event name and part.
    ``usual_seconds`` is the length of an undisturbed step: the sum of the medians of its parts. On
    a busy machine every step is interrupted somewhere; medians of parts are not affected.
    """

    steps: tuple[TimedStep, ...]
    ops: dict[str, OpTimes]
    unnamed: dict[tuple[str, Part], list[int]]
    usual_seconds: float

    @property
    def count(self) -> int:
        return len(self.steps)

    @property
    def network(self) -> list[OpTimes]:
        """The ops of forward and backward."""
        return [times for times in self.ops.values() if times.part in ("forward", "backward")]

    @property
    def seconds(self) -> float:
        """The mean length of a step."""
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
        """The median over the steps, or the sum of the medians of its ops if that is less."""
        whole = statistics.median(step.split.seconds(part) for step in self.steps)
        if part in WAITS or part == "rest":
            return whole
        return min(whole, _named_seconds(self.ops, (part,), self.count) or whole)

    def steady_part_seconds(self, part: Part) -> float:
        """The mean without the longest step: a recurring delay counts, a single one does not."""
        seconds = sorted(step.split.seconds(part) for step in self.steps)
        return statistics.mean(seconds[:-1] if len(seconds) >= _MANY else seconds)

    def mean_seconds(self, nanoseconds: Iterable[int]) -> float:
        """The seconds per step of a sum over all steps."""
        return sum(nanoseconds) / 1e9 / len(self.steps)


def time_steps(traces: Sequence[StepTrace], graph: Graph | None) -> Timings:
    """Match the events of each step with ops, divide it into parts, and add up times by op."""
    steps = []
    ops: dict[str, OpTimes] = {}
    unnamed: dict[tuple[str, Part], list[int]] = {}
    for trace in traces:
        names = name_events(trace.main, graph)
        step = TimedStep(trace, names, split_step(trace, names))
        steps.append(step)
        others = _unnamed_events(step)
        _add_ops(step, others, ops)
        for index in others:
            event = trace.main.events[index]
            key = (event.name, step.split.part_at(event.start))
            unnamed.setdefault(key, []).append(trace.main.own[index])
    return Timings(tuple(steps), ops, unnamed, _usual_seconds(steps, ops))


def _usual_seconds(steps: Sequence[TimedStep], ops: dict[str, OpTimes]) -> float:
    whole = statistics.median(step.trace.seconds for step in steps)
    waits = sum(statistics.median(step.split.seconds(part) for step in steps) for part in WAITS)
    others = tuple(part for part in PARTS if part not in WAITS)
    named = _named_seconds(ops, others, len(steps))
    return min(whole, waits + idle_seconds(steps) + named) if named > 0 else whole


def idle_seconds(steps: Sequence[TimedStep]) -> float:
    """The median over the steps of the time in which nothing runs that a profile shows."""
    return statistics.median(length(idle_rest(step)) for step in steps) / 1e9


def _named_seconds(ops: dict[str, OpTimes], parts: tuple[Part, ...], steps: int) -> float:
    """The sum of the medians of the ops in some parts, each times its calls per step."""
    return sum(
        times.usual_cost_seconds * len(times.own) / steps
        for times in ops.values()
        if times.part in parts
    )


def idle_rest(step: TimedStep) -> Intervals:
    """The rest of a step in which neither an op runs nor torch.compile compiles."""
    ops = ((e.start, e.end) for e in step.trace.main.roots() if not e.is_range)
    return subtract(step.split.spans["rest"], union([*step.trace.compiling, *ops]))


def _add_ops(step: TimedStep, others: Sequence[int], ops: dict[str, OpTimes]) -> None:
    main = step.trace.main
    spans = step.split.in_order()
    begins = [begin for begin, _, _ in spans]
    roots = [main.events[index] for index in others if main.parents[index] < 0]
    at = 0
    previous = step.trace.begin
    for index in sorted(step.names):
        event = main.events[index]
        node = step.names[index]
        begin, _, part = spans[max(0, bisect.bisect_right(begins, event.start) - 1)]
        between = event.start - max(previous, begin)
        while at < len(roots) and roots[at].start < event.start:
            # Another op, which has its own row, ran in the gap before this one.
            if roots[at].start >= max(previous, begin):
                between -= roots[at].end - roots[at].start
            at += 1
        times = ops.setdefault(node.name, OpTimes(node, part))
        times.own.append(event.end - event.start)
        times.before.append(max(0, between) if part in _TRAINING else 0)
        previous = event.end


def _unnamed_events(step: TimedStep) -> list[int]:
    """The ops that match no op of the graph, are not inside one, and do not contain one."""
    main = step.trace.main
    containing: set[int] = set()
    for index in step.names:
        parent = main.parents[index]
        while parent >= 0 and parent not in containing:
            containing.add(parent)
            parent = main.parents[parent]
    owners = inherited(main, step.names)
    return [
        index
        for index, event in enumerate(main.events)
        if owners[index] is None and index not in containing and not event.is_range
    ]
