"""Chooses the tensors to compare for each pair of ops, and records which values the pair reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sonde.compare.runs.measure import Measured, MeasureTask
from sonde.compare.runs.pairing.alignment import Alignment, slot_pairs
from sonde.compare.runs.result import How, RankFault, Status
from sonde.compare.runs.run_side import SideOp, SideValue, State
from sonde.dump.tensor_record import TensorRecord

ValuePair = tuple[SideValue, SideValue]

_IGNORED_ARGUMENTS = frozenset(
    {"dtype", "device", "layout", "memory_format", "pin_memory", "forward"}
)


@dataclass(slots=True)
class PendingPair:
    """A pair of ops while its tensors are measured (`measure`) and assessed (`fault`).

    ``tasks`` are the tensors to compare and ``makes`` the values that they hold, None for an
    input. ``reads`` are the values that the pair reads and that are paired themselves. ``state``
    names the parameter whose value at the end of the step is compared. ``has_unknown_inputs``: it
    also reads a value without a counterpart. ``assessed_as``: the op whose rounding bounds the
    error. ``status``, the errors (relative, of the worst tensor) and ``notes`` are set by `fault`;
    ``fault``, where ranks were merged, by `merging.fault_ranks`.
    """

    order: float
    a: SideOp
    b: SideOp
    how: How
    members_a: tuple[SideOp, ...] = ()
    members_b: tuple[SideOp, ...] = ()
    tasks: list[MeasureTask] = field(default_factory=list)
    makes: list[ValuePair | None] = field(default_factory=list)
    reads: list[ValuePair] = field(default_factory=list)
    state: str | None = None
    state_b: str | None = None
    has_unpaired_ops: bool = False
    has_unknown_inputs: bool = False
    assessed_as: SideOp | None = None
    measured: list[Measured] = field(default_factory=list)
    status: Status = "not dumped"
    error: float = 0.0
    input_error: float = 0.0
    tolerance: float = 0.0
    allowed: float = 0.0
    notes: list[str] = field(default_factory=list)
    fault: RankFault | None = None

    @property
    def is_leaf(self) -> bool:
        return self.a.is_leaf and self.state is None

    @property
    def value(self) -> ValuePair:
        return self.a.value, self.b.value

    @property
    def names(self) -> tuple[str, str]:
        """The parameter, if its last value is compared and the ops are pairs of their own."""
        if self.state is None or self.state_b is None or self.has_unpaired_ops:
            return self.a.name, self.b.name
        return self.state, self.state_b

    def add(
        self,
        a: TensorRecord | None,
        b: TensorRecord | None,
        makes: ValuePair | None,
        parameters: tuple[str | None, str | None] = (None, None),
        *,
        is_weight: bool = False,
    ) -> None:
        """Compare two tensors, if both were dumped."""
        if a is not None and b is not None:
            self.tasks.append(MeasureTask(a, b, *parameters, is_weight=is_weight))
            self.makes.append(makes)

    def differing_arguments(self) -> list[str]:
        """Arguments that differ between ops of one type, other than dtypes, devices, layouts and
        the names of other ops."""
        if self.a.type != self.b.type:
            return []
        return differing_names(dict(self.a.attributes), dict(self.b.attributes))

    def describe_arguments(self) -> list[str]:
        left, right = dict(self.a.attributes), dict(self.b.attributes)
        return [
            f"{name} is {left.get(name, 'not given')} in a and {right.get(name, 'not given')} in b"
            for name in self.differing_arguments()
        ]


def differing_names(left: Mapping[str, str], right: Mapping[str, str]) -> list[str]:
    """Arguments that differ, other than dtypes, devices, layouts, placements and the names of other
    ops."""
    return [
        name
        for name in {**left, **right}
        if left.get(name) != right.get(name)
        and name not in _IGNORED_ARGUMENTS
        and name == name.lower()  # MindSpore's internal attributes have capitals.
        and not name.endswith("_names")
        and not name.startswith("placement.")
    ]


def pending_pairs(found: Alignment) -> list[PendingPair]:
    """Everything to compare in one step, in the execution order of a."""
    pairs = [_op_pair(found, op, other, how) for op, other, how in found.pairs()]
    pairs += _replaced_ops(found)
    pairs += _final_states(found)
    pairs.sort(key=lambda pair: pair.order)
    return pairs


def _op_pair(found: Alignment, op: SideOp, other: SideOp, how: How) -> PendingPair:
    members = found.members_a.get(op.index, ()), found.members_b.get(op.index, ())
    pair = PendingPair(float(op.index), op, other, how, *members)
    if "empty" in (op.kind, other.kind):
        return pair
    pair.reads = _reads(found, pair)
    known = {value for value, _ in pair.reads}
    is_known = all(root in known for root in found.a.roots(op))
    pair.has_unknown_inputs = not is_known and not pair.members_a
    if op.is_leaf:
        is_parameter = op.node_kind == "parameter"
        pair.add(
            found.a.initial_record(op),
            found.b.initial_record(other),
            pair.value,
            (op.name, other.name) if is_parameter else (None, None),
            is_weight=is_parameter,
        )
    else:
        _add_outputs(found, pair)
        _add_inputs(found, pair)
    return pair


def _add_outputs(found: Alignment, pair: PendingPair) -> None:
    a, b = pair.a, pair.b
    may_be_transposed = a.phase == "backward" and a.kind in ("matmul", "transpose")
    for slot, other_slot in slot_pairs(a, b):
        value, twin = SideValue(a.name, slot), SideValue(b.name, other_slot)
        pair.add(
            found.a.output_record(value),
            found.b.output_record(twin),
            (value, twin),
            is_weight=may_be_transposed and a.type != b.type,
        )


def _add_inputs(found: Alignment, pair: PendingPair) -> None:
    """Compare the inputs themselves if the dump does not say which ops produced them."""
    a, b = pair.a, pair.b
    if a.type == b.type and not (a.inputs and b.inputs):
        for slot in range(32):
            left = found.a.records.get((a.name, "input", slot))
            pair.add(left, found.b.records.get((b.name, "input", slot)), None)


def _reads(found: Alignment, pair: PendingPair) -> list[ValuePair]:
    """The paired values that the pair and its members read from other pairs, as roots."""
    inside = {pair.a.index, *(op.index for op in pair.members_a)}
    reads: dict[SideValue, SideValue] = {}
    for op in (pair.a, *pair.members_a):
        for root in found.a.roots(op):
            producer = found.a.producer(root)
            if producer is None or (producer.index in inside and producer is not pair.a):
                continue
            twin = found.values.get(root)
            if twin is not None and root.op != pair.a.name:
                reads[root] = twin
    for value, twin in found.places:
        if value in found.a.roots(pair.a) and twin in found.b.roots(pair.b):
            reads[value] = twin
    return list(reads.items())


def _replaced_ops(found: Alignment) -> Iterator[PendingPair]:
    """Pair each op without a counterpart with the op in its place."""
    for value, twin in found.places:
        op, other = found.a.producer(value), found.b.producer(twin)
        if op is None or other is None:
            continue
        is_in_a = found.is_open(op)
        order = op.index if is_in_a else _place_in_a(found, other)
        pair = PendingPair(order, op, other, "place")
        pair.add(found.a.output_record(value), found.b.output_record(twin), (value, twin))
        if not pair.tasks:
            continue
        alone, side = (op, found.a) if is_in_a else (other, found.b)
        pair.assessed_as = alone
        if is_in_a:
            reads = _reads(found, pair)
        else:
            back = ((found.values_back.get(root), root) for root in found.b.roots(other))
            reads = [(root_a, root_b) for root_a, root_b in back if root_a is not None]
        pair.reads = [each for each in reads if each != (value, twin)]
        pair.has_unknown_inputs = len(pair.reads) < len(set(side.roots(alone)))
        yield pair


def _place_in_a(found: Alignment, other: SideOp) -> float:
    """The order in a for an op that only b has: directly after the values that it reads."""
    before = [
        found.backward[producer.index]
        for root in found.b.roots(other)
        if (producer := found.b.producer(root)) is not None and producer.index in found.backward
    ]
    return max(before, default=-1) + 0.25


def _final_states(found: Alignment) -> Iterator[PendingPair]:
    """The last values of parameters that no pair of ops compares."""
    states_a, states_b = found.a.states(), found.b.states()
    for leaf, twin, _ in list(found.pairs()):
        if leaf.node_kind != "parameter":
            continue
        a, b = states_a.get(leaf.name), states_b.get(twin.name)
        if a is None or b is None or _is_compared(found, a, b):
            continue
        pair = PendingPair(a.op.index + 0.5, a.op, b.op, "update")
        pair.state, pair.state_b = leaf.name, twin.name
        pair.has_unpaired_ops = found.is_open(a.op) and found.is_open_b(b.op)
        pair.reads = _state_reads(found, pair)
        pair.add(a.record, b.record, None, (leaf.name, twin.name), is_weight=True)
        yield pair


def _is_compared(found: Alignment, a: State, b: State) -> bool:
    """Whether a pair of ops compares these tensors already."""
    if found.forward.get(a.op.index) != b.op.index:
        return False
    key_a, key_b = a.record.key, b.record.key
    return (
        key_a.io == "output" == key_b.io
        and (key_a.slot, key_b.slot) in slot_pairs(a.op, b.op)
        and (key_a.op, key_b.op) == (a.op.name, b.op.name)
    )


def _state_reads(found: Alignment, pair: PendingPair) -> list[ValuePair]:
    """The values that an update reads; if it consists of several ops, the values that all read."""
    reads: dict[SideValue, SideValue] = {}
    stack, seen = [pair.a], {pair.a.index}
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
