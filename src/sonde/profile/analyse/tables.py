"""A step's time by op, by module and by line of the user's code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sonde.core.graph import OpNode, Source
from sonde.profile.analyse import cost
from sonde.profile.analyse.event_matching import is_collective_type
from sonde.profile.analyse.memory import plain_scope
from sonde.profile.analyse.timings import WAITS, OpTimes, Timings
from sonde.profile.document import LineItem, Machine, ModuleItem, OpItem, TimelineItem

_MOST_SHAPES = 4
_MOST_TIMELINE_OPS = 2000


def op_items(timings: Timings, machine: Machine) -> tuple[OpItem, ...]:
    """One row for calls of an op with the same shapes, module, phase and line; longest first."""
    groups: dict[tuple[object, ...], list[OpTimes]] = {}
    for times in timings.ops.values():
        node = times.node
        key = (node.type, plain_scope(node.scope), _phase(times), node.source, shapes_text(node))
        groups.setdefault(key, []).append(times)
    rows = [_op_item(timings, machine, group) for group in groups.values()]
    for (name, part), own in timings.unnamed.items():
        rows.append(
            OpItem(
                op=name.removeprefix("aten::"),
                module="",
                phase=part,
                place=None,
                shapes="",
                calls=len(own) / timings.count,
                seconds=timings.mean_seconds(own),
                python_seconds=0.0,
                flops=None,
                nbytes=None,
                share_of_machine=None,
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _op_item(timings: Timings, machine: Machine, group: list[OpTimes]) -> OpItem:
    node = group[0].node
    calls = sum(len(times.own) for times in group) / timings.count
    seconds = timings.mean_seconds(value for times in group for value in times.own)
    least = calls * cost.attainable_seconds(node, machine)
    is_bound_here = least > 0 and not is_collective_type(node.type)
    return OpItem(
        op=node.type,
        module=plain_scope(node.scope),
        phase=_phase(group[0]),
        place=node.source,
        shapes=shapes_text(node),
        calls=calls,
        seconds=seconds,
        python_seconds=timings.mean_seconds(value for times in group for value in times.before),
        flops=cost.flops(node) * calls,
        nbytes=cost.nbytes(node) * calls,
        share_of_machine=least / seconds if seconds > 0 and is_bound_here else None,
    )


def shapes_text(node: OpNode) -> str:
    """The shapes and dtypes of an op's inputs, abbreviated: ``f32[8,128] i64[8]``."""
    specs = [edge.spec for edge in node.inputs]
    shown = [
        f"{_short(spec.dtype)}[{','.join(map(str, spec.shape))}]" for spec in specs[:_MOST_SHAPES]
    ]
    more = len(specs) - _MOST_SHAPES
    return " ".join([*shown, f"and {more} more"] if more > 0 else shown)


def _short(dtype: str) -> str:
    for name, letter in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i")):
        dtype = dtype.replace(name, letter)
    return dtype


def timeline(timings: Timings) -> TimelineItem:
    """The step of median length, in detail."""
    step = timings.usual_step
    begin = step.trace.begin
    ops = [(node, step.trace.main.events[index]) for index, node in step.names.items()]
    longest = sorted(ops, key=lambda op: op[1].start - op[1].end)[:_MOST_TIMELINE_OPS]
    return TimelineItem(
        step=step.trace.number,
        parts=tuple(
            (part, (a - begin) / 1e9, (b - begin) / 1e9) for a, b, part in step.split.in_order()
        ),
        ops=tuple(
            (node.type, plain_scope(node.scope), (e.start - begin) / 1e9, (e.end - begin) / 1e9)
            for node, e in sorted(longest, key=lambda op: op[1].start)
        ),
    )


def module_tree(timings: Timings) -> ModuleItem:
    """Own and Python time of all ops by the module in which they ran; the root is the step."""
    root = _Branch("step")
    for times in timings.ops.values():
        if times.part in WAITS:
            continue
        branch = root
        for label in plain_scope(times.node.scope).split("/"):
            branch = branch.child(label)
        seconds = timings.mean_seconds([*times.own, *times.before])
        if times.node.phase == "backward":
            branch.backward += seconds
        else:
            branch.forward += seconds
    default = root.children.pop("Default", None)
    if default is not None:
        root.forward, root.backward = default.forward, default.backward
        root.children = {**default.children, **root.children}
    for part in WAITS:
        if timings.part_seconds(part) > 0:
            root.child(f"({part})").forward = timings.part_seconds(part)
    named = root.item()
    elsewhere = timings.seconds - named.forward - named.backward
    root.child("(not in any op)").forward = max(0.0, elsewhere)
    return root.item()


def line_items(timings: Timings, elsewhere: Mapping[Source, float]) -> tuple[LineItem, ...]:
    """A step's seconds by line; ``elsewhere`` is what sampling found outside of ops.

    Ops that load data count as other time.
    """
    lines: dict[Source, list[float]] = {}
    for times in timings.ops.values():
        source = times.node.source
        if source is None:
            continue
        row = lines.setdefault(source, [0.0] * 5)
        column = {"forward": 0, "backward": 1, "optimizer": 2, "data": 3}[_phase(times)]
        row[column] += timings.mean_seconds([*times.own, *times.before])
        row[4] += len(times.own) / timings.count
    for source, seconds in elsewhere.items():
        lines.setdefault(source, [0.0] * 5)[3] += seconds
    items = [LineItem(source, *row) for source, row in lines.items()]
    return tuple(sorted(items, key=lambda item: -item.seconds))


def _phase(times: OpTimes) -> str:
    """The phase of an op; "data" for the ops of a dataset."""
    return "data" if times.part == "data" else times.node.phase


@dataclass(slots=True)
class _Branch:
    """A module while its times are added up; ``label`` is its part of the scope: name-kind."""

    label: str
    forward: float = 0.0
    backward: float = 0.0
    children: dict[str, _Branch] = field(default_factory=dict)

    def child(self, label: str) -> _Branch:
        return self.children.setdefault(label, _Branch(label))

    def item(self) -> ModuleItem:
        items = [child.item() for child in self.children.values()]
        name, _, kind = self.label.partition("-")
        return ModuleItem(
            name=name,
            kind=kind,
            forward=self.forward + sum(item.forward for item in items),
            backward=self.backward + sum(item.backward for item in items),
            own=self.forward + self.backward,
            children=tuple(sorted(items, key=lambda item: -(item.forward + item.backward))),
        )
