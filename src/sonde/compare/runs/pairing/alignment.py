"""The pairs of two graphs found so far, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from sonde.compare.runs.pairing.root_names import RootNames
from sonde.compare.runs.result import How
from sonde.compare.runs.run_side import RunSide, SideOp, SideValue
from sonde.core.operators.kinds import is_plumbing

# Ops whose outputs have another order in the other framework.
_SLOTS = {
    ("BatchNorm", "native_batch_norm"): ((0, 0), (3, 1)),
    ("LayerNorm", "native_layer_norm"): ((0, 0),),
}
# The last output is scratch memory for the backward op: its values mean nothing.
_WITH_WORKSPACE = frozenset({"mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"})


@dataclass
class Alignment:
    """The pairs found so far: op index of a to that of b, and the other way.

    ``as_in_a`` translates names of b where a network has another name in a.
    """

    a: RunSide
    b: RunSide
    as_in_a: RootNames = field(default_factory=RootNames)
    forward: dict[int, int] = field(default_factory=dict)
    backward: dict[int, int] = field(default_factory=dict)
    how: dict[int, How] = field(default_factory=dict)
    values: dict[SideValue, SideValue] = field(default_factory=dict)
    values_back: dict[SideValue, SideValue] = field(default_factory=dict)
    members_a: dict[int, tuple[SideOp, ...]] = field(default_factory=dict)
    members_b: dict[int, tuple[SideOp, ...]] = field(default_factory=dict)
    places: list[tuple[SideValue, SideValue]] = field(default_factory=list)

    def add(self, op: SideOp, other: SideOp, how: How) -> None:
        self.forward[op.index], self.backward[other.index] = other.index, op.index
        self.how[op.index] = how
        for slot, other_slot in slot_pairs(op, other):
            value, twin = SideValue(op.name, slot), SideValue(other.name, other_slot)
            self.values[value], self.values_back[twin] = twin, value

    def has_same_name(self, op: SideOp, other: SideOp) -> bool:
        return op.type == other.type and op.name == self.as_in_a(other.name)

    def has_same_scope(self, op: SideOp, other: SideOp) -> bool:
        return op.scope == self.as_in_a(other.scope)

    def is_open(self, op: SideOp) -> bool:
        return op.index not in self.forward

    def is_open_b(self, op: SideOp) -> bool:
        return op.index not in self.backward

    def pairs(self) -> Iterator[tuple[SideOp, SideOp, How]]:
        for index in sorted(self.forward):
            yield self.a.ops[index], self.b.ops[self.forward[index]], self.how[index]


def slot_pairs(a: SideOp, b: SideOp) -> list[tuple[int, int]]:
    """Which outputs of two paired ops are the same tensor."""
    known = _SLOTS.get((a.type, b.type))
    if known is None and (mirrored := _SLOTS.get((b.type, a.type))) is not None:
        known = tuple((y, x) for x, y in mirrored)
    if known is not None:
        return list(known)
    if a.type == b.type or len(a.outputs) == len(b.outputs):
        pairs = [(x.slot, y.slot) for x, y in zip(a.outputs, b.outputs, strict=False)]
        return pairs[:-1] if a.type in _WITH_WORKSPACE else pairs
    return [(a.value.slot, b.value.slot)] if a.outputs and b.outputs else []


def remaining_inputs(
    found: Alignment, op: SideOp, other: SideOp
) -> list[tuple[SideValue, SideValue]]:
    """Inputs of two paired ops that must correspond, because all other inputs are paired."""
    roots, other_roots = found.a.roots(op), found.b.roots(other)
    left = [root for root in roots if found.values.get(root) not in other_roots]
    right = [root for root in other_roots if found.values_back.get(root) not in roots]
    pairs: list[tuple[SideValue, SideValue]] = []
    for value in left:
        size = _size(found.a, value)
        fitting = [twin for twin in right if _size(found.b, twin) == size]
        if fitting:
            right.remove(fitting[0])
            pairs.append((value, fitting[0]))
    return pairs


def find_places(found: Alignment) -> Iterator[tuple[SideValue, SideValue]]:
    """Values that paired ops read at the same input position, if one has no counterpart."""
    seen: set[tuple[SideValue, SideValue]] = set()
    for op, other, how in list(found.pairs()):
        if op.type != other.type or how == "order" or is_plumbing(op.type):
            continue  # Ops of different types need not read corresponding values.
        for value, twin in remaining_inputs(found, op, other):
            producer, source = found.a.producer(value), found.b.producer(twin)
            if producer is None or source is None or (value, twin) in seen:
                continue
            if producer.is_leaf or source.is_leaf:
                continue
            if found.is_open(producer) or found.is_open_b(source):
                seen.add((value, twin))
                yield value, twin


def collect_members(found: Alignment) -> None:
    """Assign the unpaired ops to the pairs whose inputs they compute, each op to one pair."""
    taken_a: set[int] = set()
    taken_b: set[int] = set()
    for op, other, _ in found.pairs():
        if op.is_leaf or is_plumbing(op.type):
            continue
        found.members_a[op.index] = _upstream(found.a, op, found.forward, taken_a)
        found.members_b[op.index] = _upstream(found.b, other, found.backward, taken_b)


def _upstream(
    side: RunSide, op: SideOp, paired: Mapping[int, int], taken: set[int]
) -> tuple[SideOp, ...]:
    members: list[SideOp] = []
    stack = [op]
    while stack:
        current = stack.pop()
        for root in side.roots(current):
            producer = side.producer(root)
            if producer is None or producer.is_leaf or producer.index in paired:
                continue
            if producer.index in taken or producer.phase != op.phase:
                continue
            taken.add(producer.index)
            members.append(producer)
            stack.append(producer)
    return tuple(sorted(members, key=lambda each: each.index))


def _size(side: RunSide, value: SideValue) -> int:
    """The number of elements; -1 if it is unknown, -2 if the value is unknown."""
    op = side.producer(value)
    if op is None:
        return -2
    shape = next(out.spec.shape for out in op.outputs if out.slot == value.slot)
    return prod(shape) if all(size >= 0 for size in shape) else -1
