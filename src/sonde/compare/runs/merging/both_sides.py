"""Merges two runs with different layouts into two sides with the same shapes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from sonde.compare.run_layout import AxisRule
from sonde.compare.runs.merging.grid import MICRO_BATCHES
from sonde.compare.runs.merging.loss_rules import losses_of, set_loss_rules
from sonde.compare.runs.merging.merge import RankSides, Slot, merged_ops
from sonde.compare.runs.merging.plan import (
    Parts,
    Place,
    Rules,
    Shape,
    is_equal_along,
    merged_shape,
)
from sonde.compare.runs.merging.planning import Known, SidePlanner
from sonde.compare.runs.merging.record import MergedRecord, distance
from sonde.compare.runs.merging.row_order import row_order
from sonde.compare.runs.pairing.root_names import RootNames, translate_roots
from sonde.compare.runs.run_side import RunSide, SideOp, SideValue
from sonde.core.errors import DumpError
from sonde.core.text.number_text import count_text
from sonde.dump.tensor_record import TensorRecord

Attributes = tuple[tuple[str, str], ...]
BothRules = tuple[tuple[Rules, Shape], tuple[Rules, Shape]]
"""How a tensor is merged in a and in b, and the shapes that result."""

_LIST: Final = re.compile(r"[\[(][-0-9, ]*[\])]")
_SIZES: Final = frozenset({"split_size", "start", "end", "length", "storage_offset", "overwrites"})


@dataclass(frozen=True, slots=True)
class MergedSides:
    """The two sides, what they were merged from, and how, in sentences for people. ``settled``: the
    ops of a that use gradients after they were exchanged, but for the optimizer."""

    a: RunSide
    b: RunSide
    from_a: RankSides
    from_b: RankSides
    notes: tuple[str, ...]
    settled: frozenset[str]


@dataclass
class _Merging:
    a: SidePlanner
    b: SidePlanner
    as_in_a: RootNames
    plans_a: dict[Slot, TensorRecord] = field(default_factory=dict)
    plans_b: dict[Slot, TensorRecord] = field(default_factory=dict)

    def run(self) -> None:
        for planner, plans in ((self.a, self.plans_a), (self.b, self.plans_b)):
            plans.update(_inputs(planner))
        self._decide_losses()
        twins = {
            (self.as_in_a(op), io, slot): (op, io, slot) for op, io, slot in self.b.found.parts
        }
        for slot in self.a.found.parts:
            if slot not in self.plans_a:
                twin = twins.get(slot)
                self._plan_pair(slot, twin if twin not in self.plans_b else None)
        for slot in list(self.b.found.parts):
            if slot not in self.plans_b:
                self._plan_alone(self.b, slot, self.plans_b)
        self._put_rows_in_order(twins)

    def _put_rows_in_order(self, twins: Mapping[Slot, Slot]) -> None:
        """Give the rows of a merged batch the order of the other side; of a if both are merged."""
        planner, plans, other, theirs = self.a, self.plans_a, self.b, self.plans_b
        if planner.is_single:
            planner, plans, other, theirs = other, theirs, planner, plans
            twins = {twin: slot for slot, twin in twins.items()}
        records = {**other.found.side.records, **theirs} if other.is_single else theirs
        inputs = [
            records[name, "output", 0]
            for name, (kind, _) in other.kinds.items()
            if kind == "input" and (name, "output", 0) in records
        ]
        order = row_order(planner, plans, lambda slot: records.get(twins.get(slot, slot)), inputs)
        planner.order = order
        for slot, record in plans.items() if order is not None else ():
            if isinstance(record, MergedRecord):
                plans[slot] = replace(record, plan=replace(record.plan, order=order))

    def _decide_losses(self) -> None:
        """Whether the losses of places are summed or averaged: whichever gives the same loss on
        both sides."""
        losses_a, losses_b = losses_of(self.a), losses_of(self.b)
        if not losses_a or not losses_b:
            return
        wanted = sum(losses_b.values()) / len(losses_b)
        whole = set_loss_rules(self.a, losses_a, wanted)
        set_loss_rules(self.b, losses_b, whole)

    def _plan_pair(self, slot: Slot, twin: Slot | None) -> None:
        known = self.a.known(slot)
        other = None if twin is None else self.b.known(twin)
        if known is None:
            return
        if twin is None or other is None:
            self._plan_alone(self.a, slot, self.plans_a)
            return
        fitting = list(_fitting(self.a, slot, known, self.b, twin, other))
        if not fitting:
            self._plan_alone(self.a, slot, self.plans_a)
            return
        if len(fitting) > 1:
            fitting = self._consistent(slot, twin, fitting)
        best = fitting[0]
        if len(fitting) > 1:
            best = min(fitting, key=lambda each: self._distance(slot, known, twin, other, each))
        (rules_a, shape), (rules_b, _) = best
        _keep(self.plans_a, slot, self.a.record(slot, rules_a, shape, known.origin))
        _keep(self.plans_b, twin, self.b.record(twin, rules_b, shape, other.origin))

    def _consistent(self, slot: Slot, twin: Slot, fitting: list[BothRules]) -> list[BothRules]:
        """The readings that concatenate along axes where the parts differ, not where they are
        copies; all readings if no values can be read."""
        a, b = _values(self.a.found.parts[slot]), _values(self.b.found.parts[twin])
        if a is None or b is None:
            return fitting
        counts = [
            _concatenated_copies(a, rules_a) + _concatenated_copies(b, rules_b)
            for (rules_a, _), (rules_b, _) in fitting
        ]
        return [each for each, count in zip(fitting, counts, strict=True) if count == min(counts)]

    def _distance(
        self,
        slot: Slot,
        known: Known,
        twin: Slot,
        other: Known,
        reading: BothRules,
    ) -> float:
        """How far the two tensors are apart if they are merged like this."""
        (rules_a, shape), (rules_b, _) = reading
        a = self.a.record(slot, rules_a, shape, known.origin)
        b = self.b.record(twin, rules_b, shape, other.origin)
        if a is None or b is None:
            return inf
        try:
            reference = b.numpy()
            values, _ = a.against(reference)
        except DumpError:
            return inf
        return distance(values, reference)

    def _plan_alone(
        self, planner: SidePlanner, slot: Slot, plans: dict[Slot, TensorRecord]
    ) -> None:
        known = planner.known(slot)
        reading = None if known is None else planner.default_reading(slot, known)
        if known is not None and reading is not None:
            _keep(plans, slot, planner.record(slot, *reading, known.origin))


def _keep(plans: dict[Slot, TensorRecord], slot: Slot, record: TensorRecord | None) -> None:
    if record is not None:
        plans[slot] = record


def _fitting(
    a: SidePlanner, slot: Slot, known: Known, b: SidePlanner, twin: Slot, other: Known
) -> Iterator[BothRules]:
    """The readings that give both sides the same shape, those of the fewest divisions only."""
    if not a.is_single and not b.is_single:
        # Local parts of the same shape: what has the length of a local batch is a part of it.
        mine, theirs = a.default_reading(slot, known), b.default_reading(twin, other)
        if mine is not None and theirs is not None and mine[1] == theirs[1]:
            yield mine, theirs
            return
    readings_b: dict[Shape, list[Rules]] = {}
    for rules, shape in b.readings(other):
        readings_b.setdefault(shape, []).append(rules)
    least: int | None = None
    for rules, shape in a.readings(known):
        for rules_b in readings_b.get(shape, ()):
            count = sum(each.rule == "concat" for each in (*rules, *rules_b))
            if least is None or count <= least:
                least = count
                yield (rules, shape), (rules_b, shape)


def _concatenated_copies(parts: Parts, rules: Rules) -> int:
    """The number of axes along which equal parts would be concatenated."""
    return sum(
        rule.rule == "concat" and is_equal_along(parts, number) for number, rule in enumerate(rules)
    )


def _inputs(planner: SidePlanner) -> Iterator[tuple[Slot, MergedRecord]]:
    """The inputs of the step: those that differ between places are divided in their first
    dimension."""
    if planner.is_single:
        return
    for name, (kind, _) in planner.kinds.items():
        slot: Slot = (name, "output", 0)
        is_alias = SideValue(name, 0) in planner.found.aliases
        if kind != "input" or slot not in planner.found.parts or is_alias:
            continue
        known = planner.known(slot)
        values = None if known is None else _values(planner.found.parts[slot])
        if known is None or values is None:
            continue
        rules = []
        for number in range(len(planner.found.grid.axes)):
            rule = known.rules.get(number)
            if rule is None:
                is_divided = known.shapes[min(known.shapes)] and not is_equal_along(values, number)
                rule = AxisRule("concat", 0) if is_divided else AxisRule("one")
                if is_divided:
                    planner.batch_axes |= {number}
            rules.append(rule)
        shape = merged_shape(known.shapes, tuple(rules))
        record = None if shape is None else planner.record(slot, tuple(rules), shape, known.origin)
        if record is not None:
            yield slot, record


def _values(parts: Mapping[Place, TensorRecord]) -> Parts | None:
    try:
        return {place: record.numpy() for place, record in parts.items()}
    except DumpError:
        return None


def merge_sides(a: RankSides, b: RankSides) -> MergedSides:
    """Two sides to compare; a side of one rank without micro-batches stays as it is."""
    names_a = [a.name(op.name) for op in a.side.ops]
    names_b = [b.name(op.name) for op in b.side.ops]
    merging = _Merging(SidePlanner(a), SidePlanner(b), translate_roots(names_b, names_a))
    for planner, plans in ((merging.a, merging.plans_a), (merging.b, merging.plans_b)):
        if planner.is_single:
            side = planner.found.side
            plans.update(
                {slot: each for slot, each in side.records.items() if _is_input(side, slot)}
            )
    merging.run()
    side_a = _merged_side(a, merging.plans_a)
    side_b = _merged_side(b, merging.plans_b)
    return MergedSides(side_a, side_b, a, b, tuple(_notes(merging)), merging.a.settled)


def _is_input(side: RunSide, slot: Slot) -> bool:
    return any(op.name == slot[0] for op in side.leaves("input"))


def _merged_side(found: RankSides, plans: Mapping[Slot, TensorRecord]) -> RunSide:
    side = found.side
    if not found.grid.axes:
        ops = [replace(op, attributes=_without_layout(op.attributes)) for op in side.ops]
        return RunSide(side.step, side.writer, ops, side.records, side.structure)
    ops = [_with_whole_shapes(op, plans) for op in merged_ops(found)]
    structure = hash(tuple((op.name, op.inputs) for op in ops)) or 1
    return RunSide(side.step, side.writer, ops, dict(plans), structure)


def _without_layout(attributes: Attributes) -> Attributes:
    """Arguments other than sizes, which differ with the layout, and placements."""
    return tuple(
        (name, value)
        for name, value in attributes
        if not name.startswith("placement.") and name not in _SIZES and not _LIST.fullmatch(value)
    )


def _with_whole_shapes(op: SideOp, plans: Mapping[Slot, TensorRecord]) -> SideOp:
    outputs = []
    for output in op.outputs:
        record = plans.get((op.name, "output", output.slot))
        if isinstance(record, MergedRecord):
            output = replace(output, spec=replace(output.spec, shape=record.whole_shape))
        outputs.append(output)
    return replace(op, outputs=tuple(outputs), attributes=_without_layout(op.attributes))


def _notes(merging: _Merging) -> Iterator[str]:
    for label, planner, plans in (
        ("a", merging.a, merging.plans_a),
        ("b", merging.b, merging.plans_b),
    ):
        if planner.is_single:
            continue
        axes = " x ".join(
            f"{axis.size} {'micro-batches' if axis.name == MICRO_BATCHES else 'ranks'}"
            for axis in planner.found.grid.axes
        )
        kinds = Counter(
            record.plan.origin for record in plans.values() if isinstance(record, MergedRecord)
        )
        origins = ", ".join(f"{count} {origin}" for origin, count in kinds.most_common())
        count = count_text(kinds.total(), "tensor")
        yield f"{label}: {axes} merged; placements of {count}: {origins}"
        rules = [
            f"the {rule} over the {_axis_text(planner, number)}"
            for number, rule in enumerate(planner.losses)
            if number in planner.batch_axes
        ]
        if rules:
            yield f"{label}: its loss is {', and '.join(rules)}, inferred from the losses"
        if planner.order is not None:
            yield f"{label}: its rows were put in the order of the other run, by equal inputs"


def _axis_text(planner: SidePlanner, number: int) -> str:
    axis = planner.found.grid.axes[number]
    return f"{axis.size} {MICRO_BATCHES}" if axis.name == MICRO_BATCHES else f"{axis.size} ranks"
