"""Divides a step's time into data, forward, backward, optimizer, collectives and the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from sonde.core.graph import OpNode
from sonde.profile.analyse.intervals import Interval, Intervals, intersect, length, subtract, union
from sonde.profile.analyse.traces import StepTrace, is_collective_op
from sonde.profile.record.events import TraceEvent

Part = Literal["data", "forward", "backward", "optimizer", "collectives", "rest"]
PARTS: tuple[Part, ...] = get_args(Part)

LOADER = "enumerate(DataLoader)"
"""The beginning of the name of a DataLoader's event."""
_OPTIMIZER = "Optimizer."
_ENGINE = "autograd::engine::evaluate_function"
_BOOKKEEPING = (_ENGINE, "torch::autograd::AccumulateGrad", "torch::distributed::reducer")


@dataclass(frozen=True, slots=True)
class Split:
    """The times of the parts of one step, which add up to the step and do not overlap.

    ``collectives`` is the time in which a collective was under way and the training thread ran
    nothing else; ``overlapped`` are the nanoseconds in which it ran something.
    """

    spans: dict[Part, Intervals]
    overlapped: int

    def seconds(self, part: Part) -> float:
        return length(self.spans[part]) / 1e9

    def part_at(self, moment: int) -> Part:
        for part, spans in self.spans.items():
            if _covers(spans, moment):
                return part
        return "rest"

    def in_order(self) -> list[tuple[int, int, Part]]:
        """Begin, end and part of all spans."""
        return sorted((*span, part) for part, spans in self.spans.items() for span in spans)


def split_step(trace: StepTrace, names: Mapping[int, OpNode]) -> Split:
    """Assign every moment of a step to one part.

    ``names`` are the known ops of ``trace.main``, by index. Waiting for a DataLoader is data;
    compiling is rest; forward lasts from the first op inside a module (if no names are known, from
    the first op that is neither data nor optimizer) to the backward that follows.
    """
    roots = trace.main.roots()
    data = union((e.start, e.end) for e in roots if e.name.startswith(LOADER))
    optimizer = union(
        [*trace.optimizers, *((e.start, e.end) for e in roots if e.name.startswith(_OPTIMIZER))]
    )
    backward = union(trace.backwards or _engine_spans(roots))
    computing = union((e.start, e.end) for e in trace.main.events if _computes(e))
    under_way = union(trace.collectives)
    layers: dict[Part, Intervals] = {
        "data": data,
        "optimizer": optimizer,
        "collectives": subtract(under_way, computing),
        "rest": union(trace.compiling),
        "backward": backward,
        "forward": _forward(trace, names, [*data, *optimizer], backward),
    }
    spans: dict[Part, Intervals] = {}
    left: Intervals = [(trace.begin, trace.end)]
    for part, layer in layers.items():
        spans[part] = intersect(layer, left)
        left = subtract(left, spans[part])
    spans["rest"] = union([*spans["rest"], *left])
    return Split({part: spans[part] for part in PARTS}, length(intersect(under_way, computing)))


def _computes(event: TraceEvent) -> bool:
    return not (
        event.is_range or event.name.startswith(_BOOKKEEPING) or is_collective_op(event.name)
    )


def _engine_spans(roots: list[TraceEvent]) -> list[Interval]:
    """Backward, from the events of the autograd engine."""
    spans: list[Interval] = []
    is_open = False
    for event in roots:
        if event.name.startswith(_ENGINE):
            begin = spans.pop()[0] if is_open else event.start
            spans.append((begin, event.end))
            is_open = True
        elif not event.is_range:
            is_open = False
    return spans


def _forward(
    trace: StepTrace, names: Mapping[int, OpNode], taken: list[Interval], backward: Intervals
) -> Intervals:
    """The times from the first forward op after one backward to the next backward."""
    starts = [
        trace.main.events[index].start
        for index, node in sorted(names.items())
        if node.phase == "forward" and "/" in node.scope
    ]
    if not starts:
        covered = union([*taken, *trace.compiling])
        starts = [
            event.start
            for event in trace.main.roots()
            if not event.is_range and not _covers(covered, event.start)
        ]
    spans: list[Interval] = []
    after = trace.begin
    for begin, end in [*backward, (trace.end, trace.end)]:
        inside = [start for start in starts if after <= start < begin]
        if inside and begin < trace.end:
            spans.append((inside[0], begin))
        elif inside and not backward:
            spans.append((inside[0], inside[-1]))
        after = end
    return union(spans)


def _covers(spans: Intervals, moment: int) -> bool:
    return any(begin <= moment < end for begin, end in spans)
