"""A step's time by op, by module and by line of the user's code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sonde.core.graph import OpNode, Source
from sonde.profile.analyse import cost
from sonde.profile.analyse.event_matching import is_collective_type
from sonde.profile.analyse.memory import plain_scope
from sonde.profile.analyse.split import Part
from sonde.profile.analyse.timings import OpTimes, Timings
from sonde.profile.document import CodePlace, LineItem, Machine, ModuleItem, OpItem, TimelineItem
from sonde.profile.machine import attainable_seconds

_MOST_SHAPES = 4
_MOST_TIMELINE_OPS = 2000
_APART: tuple[Part, ...] = ("data", "collectives")


def place_of(source: Source | None) -> CodePlace | None:
    if source is None:
        return None
    return CodePlace(source.file, source.line, source.function, source.code)


def op_items(timings: Timings, machine: Machine) -> tuple[OpItem, ...]:
    """Calls of one op with the same shapes, module, phase and line are one row; longest first."""
    groups: dict[tuple[object, ...], list[OpTimes]] = {}
    for times in timings.ops.values():
        node = times.node
        key = (node.type, plain_scope(node.scope), _phase(times), node.source, shapes_text(node))
        groups.setdefault(key, []).append(times)
    rows = [_op_item(timings, machine, group) for group in groups.values()]
    for (name, part), row in timings.unnamed.items():
        rows.append(
            OpItem(
                op=name.removeprefix("aten::"),
                module="",
                phase=part,
                place=None,
                shapes="",
                calls=row.calls / timings.count,
                seconds=timings.mean_seconds([row.own]),
                python_seconds=0.0,
                flops=None,
                nbytes=None,
                share_of_machine=None,
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def shapes_text(node: OpNode) -> str:
    """The shapes and types of an op's inputs, in short: ``f32[8,128] x i64[8]``."""
    specs = [edge.spec for edge in node.inputs]
    shown = [
        f"{_short(spec.dtype)}[{','.join(map(str, spec.shape))}]" for spec in specs[:_MOST_SHAPES]
    ]
    more = len(specs) - _MOST_SHAPES
    return " ".join([*shown, f"and {more} more"] if more > 0 else shown)


def timeline(timings: Timings) -> TimelineItem:
    """The step whose length is the median, in detail."""
    step = timings.usual_step
    begin = step.trace.begin
    spans = sorted(
        (start, end, part) for part, spans in step.split.spans.items() for start, end in spans
    )
    ops = [
        (node.type, plain_scope(node.scope), event.start - begin, event.end - begin)
        for node, event in ((n, step.trace.main.events[i]) for i, n in step.names.items())
    ]
    longest = sorted(ops, key=lambda op: op[2] - op[3])[:_MOST_TIMELINE_OPS]
    return TimelineItem(
        step=step.trace.number,
        parts=tuple((part, (a - begin) / 1e9, (b - begin) / 1e9) for a, b, part in spans),
        ops=tuple(
            (op, module, a / 1e9, b / 1e9) for op, module, a, b in sorted(longest, key=_begin)
        ),
    )


def _begin(op: tuple[str, str, int, int]) -> int:
    return op[2]


def module_tree(timings: Timings) -> ModuleItem:
    """Own and Python time of all ops by the module they ran in; the root is the whole step."""
    root = _Branch("step", "")
    for times in timings.ops.values():
        if times.part in _APART:
            continue
        branch = root
        for part in plain_scope(times.node.scope).split("/"):
            branch = branch.child(part)
        seconds = timings.mean_seconds([*times.own, *times.before])
        if times.node.phase == "backward":
            branch.backward += seconds
        else:
            branch.forward += seconds
    default = root.children.pop("Default", None)
    if default is not None:
        root.forward, root.backward = default.forward, default.backward
        root.children = {**default.children, **root.children}
    named = root.total()
    for part in _APART:
        seconds = timings.part_seconds(part)
        if seconds > 0:
            root.child(f"({part})").forward = seconds
            named += seconds
    root.child("(not in any op)").forward = max(0.0, timings.seconds - named)
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
    items = [LineItem(_place(source), *row) for source, row in lines.items()]
    return tuple(sorted(items, key=lambda item: -item.seconds))


def _op_item(timings: Timings, machine: Machine, group: list[OpTimes]) -> OpItem:
    node = group[0].node
    calls = sum(len(times.own) for times in group) / timings.count
    seconds = timings.mean_seconds(value for times in group for value in times.own)
    flops, nbytes = cost.flops(node) * calls, cost.nbytes(node) * calls
    least = attainable_seconds(machine, flops, nbytes, cost.compute_dtype(node))
    is_bound_here = least > 0 and not is_collective_type(node.type)
    return OpItem(
        op=node.type,
        module=plain_scope(node.scope),
        phase=_phase(group[0]),
        place=place_of(node.source),
        shapes=shapes_text(node),
        calls=calls,
        seconds=seconds,
        python_seconds=timings.mean_seconds(value for times in group for value in times.before),
        flops=flops,
        nbytes=nbytes,
        share_of_machine=least / seconds if seconds > 0 and is_bound_here else None,
    )


def _phase(times: OpTimes) -> str:
    """What an op is for; that of a dataset is not forward."""
    return "data" if times.part == "data" else times.node.phase


def _place(source: Source) -> CodePlace:
    return CodePlace(source.file, source.line, source.function, source.code)


def _short(dtype: str) -> str:
    return (
        dtype.replace("bfloat", "bf").replace("float", "f").replace("uint", "u").replace("int", "i")
    )


@dataclass(slots=True)
class _Branch:
    name: str
    kind: str
    forward: float = 0.0
    backward: float = 0.0
    children: dict[str, _Branch] = field(default_factory=dict)

    def child(self, part: str) -> _Branch:
        if part not in self.children:
            name, _, kind = part.partition("-")
            self.children[part] = _Branch(name, kind)
        return self.children[part]

    def total(self) -> float:
        return self.forward + self.backward + _total(self.children.values())

    def item(self) -> ModuleItem:
        children = tuple(
            sorted(
                (child.item() for child in self.children.values()),
                key=lambda item: -(item.forward + item.backward),
            )
        )
        return ModuleItem(
            name=self.name,
            kind=self.kind,
            forward=self.forward + sum(child.forward for child in children),
            backward=self.backward + sum(child.backward for child in children),
            own=self.forward + self.backward,
            children=children,
        )


def _total(branches: Iterable[_Branch]) -> float:
    return sum(branch.total() for branch in branches)
