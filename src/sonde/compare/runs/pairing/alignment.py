"""What is paired of two graphs so far, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from sonde.compare.runs.result import How
from sonde.compare.runs.run_side import RunSide, SideOp, SideValue

# Where two frameworks list the same outputs in other places; else equal numbers pair in order.
_SLOTS = {
    ("BatchNorm", "native_batch_norm"): ((0, 0), (3, 1)),
    ("LayerNorm", "native_layer_norm"): ((0, 0),),
}
# The last output is memory between forward and backward: its values mean nothing.
_WITH_WORKSPACE = frozenset({"mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"})


@dataclass
class Alignment:
    """The pairs found so far: op index of a to that of b, and the other way."""

    a: RunSide
    b: RunSide
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


def loose_ends(found: Alignment, op: SideOp, other: SideOp) -> list[tuple[SideValue, SideValue]]:
    """Inputs of two paired ops that must correspond because all others do."""
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


def _size(side: RunSide, value: SideValue) -> int:
    """Elements of a value; -1 and -2 where that, or the value, is not known."""
    op = side.producer(value)
    if op is None:
        return -2
    shape = next(out.spec.shape for out in op.outputs if out.slot == value.slot)
    return prod(shape) if all(size >= 0 for size in shape) else -1
