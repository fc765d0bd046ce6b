"""The ranks of a run as a grid: one axis for each way in which it divides its work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from sonde.dump.graph_files.placement import AxisPlacement, RecordedPlacement

MICRO_BATCHES: Final = "micro-batches"


@dataclass(frozen=True, slots=True)
class GridAxis:
    """``stride`` is the distance of neighbours along the axis; 0 for micro-batches."""

    name: str
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class RankGrid:
    """The axes, the outermost first: micro-batches, if there are several, then ranks. Ranks are
    numbered along the last axis first."""

    ranks: tuple[int, ...]
    axes: tuple[GridAxis, ...]

    def places(self) -> list[tuple[tuple[int, ...], int, int]]:
        """For each place of the grid: its coordinates, the micro-batch and the rank."""
        found = []
        for place in product(*(range(axis.size) for axis in self.axes)):
            micro = rank = 0
            for axis, number in zip(self.axes, place, strict=True):
                rank += axis.stride * number
                micro = number if axis.name == MICRO_BATCHES else micro
            found.append((place, micro, self.ranks[rank]))
        return found

    def axes_of(self, placement: RecordedPlacement) -> dict[int, AxisPlacement]:
        """The placement on each axis of this grid that it is about; empty if it does not fit."""
        strides = placement.strides
        if not strides and placement.sizes == (len(self.ranks),) and len(placement.axes) == 1:
            strides = (1,)
        found: dict[int, AxisPlacement] = {}
        for size, stride, kind in zip(placement.sizes, strides, placement.axes, strict=False):
            inside = [
                number
                for number, axis in enumerate(self.axes)
                if axis.stride and stride <= axis.stride < stride * size
            ]
            if prod(self.axes[number].size for number in inside) != size:
                return {}
            found.update(dict.fromkeys(inside, kind))
        return found

    def with_micro_batches(self, count: int) -> RankGrid:
        if count < 2:
            return self
        return RankGrid(self.ranks, (GridAxis(MICRO_BATCHES, count, 0), *self.axes))


def rank_grid(ranks: Sequence[int], placements: Iterable[RecordedPlacement]) -> RankGrid:
    """The grid in which the recorded placements fit; one axis if they do not fit together."""
    sizes: dict[int, int] = {}
    for placement in placements:
        for size, stride in zip(placement.sizes, placement.strides, strict=False):
            if size > 1 and stride > 0:
                sizes[stride] = min(size, sizes.get(stride, size))
    axes: list[GridAxis] = []
    below = 1
    for stride, size in sorted(sizes.items()):
        if stride % below:
            return _line(ranks)
        if stride > below:
            axes.append(GridAxis(f"axis {len(axes)}", stride // below, below))
        axes.append(GridAxis(f"axis {len(axes)}", size, stride))
        below = stride * size
    if len(ranks) % below:
        return _line(ranks)
    if len(ranks) > below:
        axes.append(GridAxis(f"axis {len(axes)}", len(ranks) // below, below))
    return RankGrid(tuple(ranks), tuple(reversed(axes)))


def named_grid(ranks: Sequence[int], mesh: Mapping[str, int]) -> RankGrid:
    """The grid of a layout file: names and sizes, the outermost axis first."""
    axes: list[GridAxis] = []
    below = 1
    for name, size in reversed(list(mesh.items())):
        axes.append(GridAxis(name, size, below))
        below *= size
    return RankGrid(tuple(ranks), tuple(reversed(axes)))


def _line(ranks: Sequence[int]) -> RankGrid:
    count = len(ranks)
    return RankGrid(tuple(ranks), (GridAxis("ranks", count, 1),) if count > 1 else ())
