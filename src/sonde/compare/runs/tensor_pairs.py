"""From paired ops to pairs of tensors: what to read, and what each pair was computed from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sonde.compare.runs.measure import Measured, MeasureTask
from sonde.compare.runs.pairing.alignment import Alignment, slot_pairs
from sonde.compare.runs.result import How
from sonde.compare.runs.run_side import SideOp, SideValue, State

Ends = tuple[SideValue, SideValue]


@dataclass(slots=True)
class PairDraft:
    """A pair of ops on its way to an OpPair.

    ``reads`` are the inputs of the pair, of both sides where they are paired; ``makes`` the values
    its tensors are. ``state`` names the parameter whose last value this is. ``is_blind``: it also
    reads something without a counterpart. ``assessed_as``: the op whose rounding bounds the error.
    """

    order: float
    a: SideOp
    b: SideOp
    how: How
    members_a: tuple[SideOp, ...] = ()
    members_b: tuple[SideOp, ...] = ()
    tasks: list[MeasureTask] = field(default_factory=list)
    makes: list[Ends | None] = field(default_factory=list)
    reads: list[Ends] = field(default_factory=list)
    state: str | None = None
    state_b: str | None = None
    lone: bool = False
    is_blind: bool = False
    assessed_as: SideOp | None = None
    measured: list[Measured] = field(default_factory=list)

    @property
    def is_leaf(self) -> bool:
        return self.a.is_leaf and self.state is None

    @property
    def name_a(self) -> str:
        return self.state if self.state is not None and not self.lone else self.a.name

    @property
    def name_b(self) -> str:
        return self.state_b if self.state_b is not None and not self.lone else self.b.name


def draft_pairs(found: Alignment) -> list[PairDraft]:
    """Everything to compare in one step, in the execution order of a."""
    drafts = [_draft(found, op, other, how) for op, other, how in found.pairs()]
    drafts += _drafted_places(found)
    drafts += _drafted_states(found)
    drafts.sort(key=lambda draft: draft.order)
    return drafts


def _draft(found: Alignment, op: SideOp, other: SideOp, how: How) -> PairDraft:
    draft = PairDraft(
        float(op.index),
        op,
        other,
        how,
        found.members_a.get(op.index, ()),
        found.members_b.get(op.index, ()),
    )
    if op.kind in ("empty",) or other.kind in ("empty",):
        return draft
    draft.reads = _reads(found, draft)
    known = {value for value, _ in draft.reads}
    draft.is_blind = any(root not in known for root in found.a.roots(op)) and not draft.members_a
    if op.is_leaf:
        _add_leaf(found, draft)
    else:
        _add_outputs(found, draft)
        _add_inputs(found, draft)
    return draft


def _add_leaf(found: Alignment, draft: PairDraft) -> None:
    a, b = found.a.initial_record(draft.a), found.b.initial_record(draft.b)
    if a is not None and b is not None:
        is_parameter = draft.a.node_kind == "parameter"
        left, right = (draft.a.name, draft.b.name) if is_parameter else (None, None)
        draft.tasks.append(MeasureTask(a, b, left, right, is_weight=is_parameter))
        draft.makes.append((draft.a.value, draft.b.value))


def _add_outputs(found: Alignment, draft: PairDraft) -> None:
    for slot, other_slot in slot_pairs(draft.a, draft.b):
        value, twin = SideValue(draft.a.name, slot), SideValue(draft.b.name, other_slot)
        a, b = found.a.output_record(value), found.b.output_record(twin)
        if a is not None and b is not None:
            is_turned = draft.a.phase == "backward" and draft.a.kind in ("matmul", "transpose")
            draft.tasks.append(
                MeasureTask(a, b, is_weight=is_turned and draft.a.type != draft.b.type)
            )
            draft.makes.append((value, twin))


def _add_inputs(found: Alignment, draft: PairDraft) -> None:
    """Compare inputs themselves where the dump does not say what made them."""
    a, b = draft.a, draft.b
    if a.type != b.type or (a.inputs and b.inputs):
        return
    slots = [slot for slot in range(32) if (a.name, "input", slot) in found.a.records]
    for slot in slots:
        left, right = found.a.record(a.name, "input", slot), found.b.record(b.name, "input", slot)
        if left is not None and right is not None:
            draft.tasks.append(MeasureTask(left, right))
            draft.makes.append(None)


def _reads(found: Alignment, draft: PairDraft) -> list[Ends]:
    """What the group reads from outside, by roots; a twin that is not known is the value's own."""
    inside = {draft.a.index, *(op.index for op in draft.members_a)}
    reads: dict[SideValue, SideValue] = {}
    for op in (draft.a, *draft.members_a):
        for root in found.a.roots(op):
            producer = found.a.producer(root)
            if producer is None or (producer.index in inside and producer is not draft.a):
                continue
            twin = found.values.get(root)
            if twin is not None and root.op != draft.a.name:
                reads[root] = twin
    for value, twin in found.places:
        if value in found.a.roots(draft.a) and twin in found.b.roots(draft.b):
            reads[value] = twin
    return list(reads.items())


def _drafted_places(found: Alignment) -> Iterator[PairDraft]:
    """An op without a counterpart against what stands in its place."""
    for value, twin in found.places:
        op, other = found.a.producer(value), found.b.producer(twin)
        a, b = found.a.output_record(value), found.b.output_record(twin)
        if op is None or other is None or a is None or b is None:
            continue
        order = op.index if found.is_open(op) else _place_in_a(found, other)
        draft = PairDraft(order, op, other, "place")
        draft.assessed_as = op if found.is_open(op) else other
        if found.is_open(op):
            draft.reads = _reads(found, draft)
        else:
            roots = found.b.roots(other)
            back = ((found.values_back.get(root), root) for root in roots)
            draft.reads = [(value, root) for value, root in back if value is not None]
        draft.reads = [ends for ends in draft.reads if ends != (value, twin)]
        lone, side = (op, found.a) if found.is_open(op) else (other, found.b)
        draft.is_blind = len(draft.reads) < len(set(side.roots(lone)))
        draft.tasks.append(MeasureTask(a, b))
        draft.makes.append((value, twin))
        yield draft


def _place_in_a(found: Alignment, other: SideOp) -> float:
    """Where an op of b without a counterpart would stand in a: just after what it reads."""
    before = [
        found.backward[producer.index]
        for root in found.b.roots(other)
        if (producer := found.b.producer(root)) is not None and producer.index in found.backward
    ]
    return max(before, default=-1) + 0.25


def _drafted_states(found: Alignment) -> Iterator[PairDraft]:
    """The last values of parameters that the pairs of ops do not show."""
    states_a, states_b = found.a.states(), found.b.states()
    for leaf, twin, _ in list(found.pairs()):
        if leaf.node_kind != "parameter":
            continue
        a, b = states_a.get(leaf.name), states_b.get(twin.name)
        if a is None or b is None or _is_shown(found, a, b):
            continue
        draft = PairDraft(a.op.index + 0.5, a.op, b.op, "update")
        draft.state, draft.state_b = leaf.name, twin.name
        draft.lone = found.is_open(a.op) and found.is_open_b(b.op)
        draft.reads = _state_reads(found, draft)
        draft.tasks.append(MeasureTask(a.record, b.record, leaf.name, twin.name, is_weight=True))
        draft.makes.append(None)
        yield draft


def _is_shown(found: Alignment, a: State, b: State) -> bool:
    """Whether a pair of ops compares these tensors already."""
    if found.forward.get(a.op.index) != b.op.index:
        return False
    slots = (a.record.key.slot, b.record.key.slot)
    return (
        a.record.key.io == "output" == b.record.key.io
        and slots in slot_pairs(a.op, b.op)
        and (a.record.key.op == a.op.name and b.record.key.op == b.op.name)
    )


def _state_reads(found: Alignment, draft: PairDraft) -> list[Ends]:
    """What the update reads; an update in several ops reads what they all read."""
    reads: dict[SideValue, SideValue] = {}
    stack, seen = [draft.a], {draft.a.index}
    while stack:
        op = stack.pop()
        for root in found.a.roots(op):
            producer = found.a.producer(root)
            twin = found.values.get(root)
            if twin is not None:
                reads[root] = twin
            elif producer is not None and producer.index not in seen and not producer.is_leaf:
                seen.add(producer.index)
                stack.append(producer)
    return list(reads.items())
