"""Divides a step with accumulated gradients into its micro-batches.

A micro-batch is a forward and a backward pass. The second one runs the same ops again, which have
other numbers: ``addmm-op0`` and ``addmm-op1``. Here both are called ``addmm-op0``, of micro-batches
0 and 1.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from sonde.compare.runs.loss import SEED
from sonde.compare.runs.run_side import RunSide, SideOp

_NUMBER: Final = re.compile(r"-op[0-9]+$")


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """``names``: for each op the name that it has in every micro-batch; ``numbers``: its
    micro-batch, none for leaves and for what runs once, such as the optimizer. ``only_later``: ops
    that the first micro-batch does not run: they add a gradient to those before."""

    count: int
    names: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    only_later: frozenset[str] = frozenset()

    def name(self, op: str) -> str:
        return self.names.get(op, op)


def count_backward_passes(side: RunSide) -> int:
    return sum(_is_seed(op) for op in side.ops)


def split_micro_batches(side: RunSide) -> MicroBatches:
    """The micro-batches of a step; one if it has one backward pass, or none."""
    count = count_backward_passes(side)
    if count < 2:
        return MicroBatches(1)
    numbers = dict(_numbers(side, count))
    totals = Counter((number, _NUMBER.sub("", name)) for name, number in numbers.items())
    seen: Counter[tuple[int, str]] = Counter()
    names: dict[str, str] = {}
    for op in side.ops:
        if op.name in numbers and op.name not in names:
            root = _NUMBER.sub("", op.name)
            key = (numbers[op.name], root)
            # FSDP2 prepares itself at the start of the first micro-batch: its last ops correspond.
            surplus = max(totals[0, root] - totals[key], 0)
            names[op.name] = f"{root}-op{seen[key] + surplus}"
            seen[key] += 1
    first = {names[name] for name, number in numbers.items() if number == 0}
    later = frozenset(names[name] for name in numbers) - first
    return MicroBatches(count, names, numbers, later)


def _numbers(side: RunSide, count: int) -> list[tuple[str, int]]:
    """The micro-batch of each op: a new one begins with the first op of the program after the last
    backward op before the next loss. FSDP2 runs ops of the forward pass between backward ops."""
    ops = [op for op in side.ops if not op.is_leaf and op.phase != "optimizer"]
    starts = [place for place, op in enumerate(ops) if _is_seed(op)]
    ends = [
        max(place for place in range(start, after) if ops[place].phase == "backward")
        for start, after in zip(starts, [*starts[1:], len(ops)], strict=True)
    ]
    found: list[tuple[str, int]] = []
    number = 0
    for place, op in enumerate(ops):
        if place > ends[number] and op.source is not None:
            number += 1
        if number >= count:  # After the last backward pass: clipping, for example.
            break
        found.append((op.name, number))
    return found


def _is_seed(op: SideOp) -> bool:
    return op.type == SEED and op.phase == "backward" and op.size == 1
