"""Which steps, ops, inputs or outputs, and ranks the user has selected."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sonde.core.errors import SondeError
from sonde.core.graph import OpNode
from sonde.core.keys import Io
from sonde.core.operators.patterns import OpPattern, selects

_RANGE = re.compile(r"^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$")
_EVERY = re.compile(r"^\s*all\s*(?:/\s*([1-9]\d{0,8})\s*)?$")


@dataclass(frozen=True, slots=True)
class StepSet:
    """A set of steps: sorted, disjoint, inclusive ranges, or every step.

    ``every`` with a ``stride``: only the steps that are a multiple of it.
    """

    ranges: tuple[tuple[int, int], ...]
    every: bool = False
    stride: int = 1

    def __contains__(self, step: int) -> bool:
        if self.every:
            return step % self.stride == 0
        return any(first <= step <= last for first, last in self.ranges)

    @property
    def last(self) -> int | None:
        """The last step of the set; None when it has no end."""
        return None if self.every or not self.ranges else self.ranges[-1][1]

    def __str__(self) -> str:
        if self.every:
            return "all" if self.stride == 1 else f"all/{self.stride}"
        return "|".join(str(a) if a == b else f"{a}-{b}" for a, b in self.ranges)


ALL_STEPS = StepSet((), every=True)


def step_set(steps: Iterable[int]) -> StepSet:
    """The set of these steps; there is at least one."""
    return parse_steps("|".join(map(str, steps)))


def parse_steps(text: str) -> StepSet:
    """``"0|5-8|100-120"``, ``"all"``, or ``"all/10"`` for every tenth step; spaces are free,
    overlapping ranges are merged."""
    if every := _EVERY.match(text):
        return StepSet((), every=True, stride=int(every[1] or 1))
    spans: list[tuple[int, int]] = []
    for part in text.split("|"):
        match = _RANGE.match(part)
        if match is None:
            raise SondeError(
                f"{text!r} is not a list of steps such as '0|5-8' or 'all'", slug="steps"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise SondeError(
                f"{text!r}: the range {first}-{last} runs backwards; write {last}-{first}",
                slug="steps",
            )
        spans.append((first, last))
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return StepSet(tuple(merged))


@dataclass(frozen=True, slots=True)
class Selection:
    """Steps, ops, inputs and outputs, ranks. ``ops`` None means every op."""

    steps: StepSet = ALL_STEPS
    ops: tuple[OpPattern, ...] | None = None
    ios: frozenset[Io] = frozenset({"input", "output"})
    ranks: frozenset[int] | None = None

    def wants_rank(self, rank: int) -> bool:
        return self.ranks is None or rank in self.ranks

    def wants_op(self, node: OpNode) -> bool:
        return self.ops is None or selects(
            self.ops, node.name, node.type, node.scope, is_leaf=node.kind != "op"
        )
