"""How a distributed tensor lies over ranks, and the text in which dumps record it.

``Shard(dim=0), Replicate() of [16, 8] over 2x2 ranks from 0 by 2x1``: of a tensor of shape
[16, 8], a grid of 2 times 2 ranks; the rank at (i, j) is 0 + 2 i + 1 j. Older dumps end with
``over 4 ranks``.
``docs/dump-format.md`` describes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

AxisKind = Literal["replicated", "sharded", "partial"]

_TEXT: Final = re.compile(
    r"(?P<kinds>.+) of \[(?P<shape>[0-9, ]*)\] over (?P<sizes>[0-9]+(?:x[0-9]+)*) ranks"
    r"(?: from (?P<first>[0-9]+) by (?P<strides>[0-9]+(?:x[0-9]+)*))?"
)
_KIND: Final = re.compile(
    r"(?P<name>_?[A-Za-z]+)\((?:dim=(?P<dim>[0-9]+))?(?P<rest>[^()]*(?:\([^()]*\))?[^()]*)\)"
)


@dataclass(frozen=True, slots=True)
class AxisPlacement:
    """How a tensor lies over one axis of a grid of ranks. ``dim``: that of a shard. ``is_inner``:
    the shards of this axis are divided among those of the later axes, not the other way.
    ``reduction``: of a partial value, such as ``sum``, ``avg`` or ``norm``."""

    kind: AxisKind
    dim: int = 0
    is_inner: bool = False
    reduction: str = "sum"


@dataclass(frozen=True, slots=True)
class RecordedPlacement:
    """The placement of one tensor: one entry of ``axes``, ``sizes`` and ``strides`` for each axis
    of the grid. ``strides`` is empty if the text does not have them."""

    axes: tuple[AxisPlacement, ...]
    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    first: int = 0
    strides: tuple[int, ...] = ()


def placement_text(
    placements: Sequence[object],
    shape: Sequence[int],
    sizes: Sequence[int],
    ranks: Sequence[Sequence[int]],
) -> str:
    """The text for a DTensor. ``ranks``: for each axis of the grid the ranks along it, through the
    rank that writes the text; the grid's place is left out if they are not evenly spaced."""
    kinds = ", ".join(map(repr, placements))
    text = f"{kinds} of {list(shape)} over {'x'.join(map(str, sizes))} ranks"
    steps = [_step(axis) for axis in ranks]
    if len(steps) != len(sizes) or None in steps:
        return text
    own = set(ranks[0]).intersection(*ranks[1:]) if len(ranks) > 1 else {ranks[0][0]}
    if len(own) != 1:
        return text
    rank = own.pop()
    first = rank - sum(rank - axis[0] for axis in ranks)
    return f"{text} from {first} by {'x'.join(map(str, steps))}"


def parse_placement(text: str) -> RecordedPlacement | None:
    """What a text of `placement_text` says; None if it is something else."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    axes = tuple(map(_axis, _KIND.finditer(match["kinds"])))
    sizes = _numbers(match["sizes"], "x")
    strides = _numbers(match["strides"] or "", "x")
    shape = _numbers(match["shape"], ",")
    if len(sizes) == 1 and len(axes) > 1:  # An older dump: only the number of ranks is known.
        return RecordedPlacement(axes, shape, sizes)
    if len(axes) != len(sizes) or (strides and len(strides) != len(sizes)):
        return None
    return RecordedPlacement(axes, shape, sizes, int(match["first"] or 0), strides)


def _axis(match: re.Match[str]) -> AxisPlacement:
    name, dim = match["name"], int(match["dim"] or 0)
    if name == "Replicate":
        return AxisPlacement("replicated")
    if "Partial" in name:
        reduction = "norm" if name == "_NormPartial" else match["rest"].strip() or "sum"
        return AxisPlacement("partial", reduction=reduction)
    return AxisPlacement("sharded", dim, is_inner=name == "_StridedShard")


def _numbers(text: str, separator: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(separator) if word.strip())


def _step(ranks: Sequence[int]) -> int | None:
    """The distance of neighbours; 0 of a single rank, None if it is not the same for all."""
    steps = {after - before for before, after in pairwise(ranks)}
    if len(ranks) == 1:
        return 0
    return steps.pop() if len(steps) == 1 and min(steps) > 0 else None
