"""A statistic of ops, as the colour of the boxes that contain them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sonde.server.graph.index import GraphIndex
from sonde.server.graph.levels import level
from sonde.wire.graphs import BoxValue, LevelValues
from sonde.wire.numbers import to_wire
from sonde.wire.shapes import StatisticNumbers


@dataclass(frozen=True, slots=True)
class OpValues:
    """A statistic of the ops of one step that have one. NaN and +inf are infinite: worse than every
    number. -inf is not, because masks are made of it: the largest value leaves it out, and the norm
    is not known. Memory that no op has filled yet has no value. ``is_sum``: the value of a scope is
    the sum of those inside it, not the largest.
    """

    statistic: str
    step: int | None
    by_op: Mapping[str, float]
    is_sum: bool = False


def statistic_value(statistic: str, numbers: Sequence[StatisticNumbers]) -> float | None:
    """One statistic of the outputs of an op: that of the output in which it is largest; None if it
    is not known."""
    found = [value for each in numbers if (value := _value(statistic, each)) is not None]
    return max(found, default=None)


def _value(statistic: str, of: StatisticNumbers) -> float | None:
    bad = of.nan_count + of.positive_inf_count + of.negative_inf_count
    match statistic:
        case "non-finite":
            return float(bad)
        case "zeros":
            return None if of.zero_count is None or not of.count else of.zero_count / of.count
        case "l2norm":
            return None if _is_masked(of) else _number(of.l2norm)
        case _:
            chosen = (of.finite_max, of.finite_min) if _is_masked(of) else (of.max, of.min)
            ends = [abs(end) for end in map(_number, chosen) if end is not None]
            return max(ends, default=None)


def _is_masked(of: StatisticNumbers) -> bool:
    """Whether the only values that are not finite are -inf."""
    return of.negative_inf_count > 0 and not of.nan_count and not of.positive_inf_count


def _number(value: float | str | None) -> float | None:
    """A number of the wire; NaN as infinity."""
    if value is None:
        return None
    number = float(value)
    return float("inf") if np.isnan(number) else number


def level_values(index: GraphIndex, scope: str, group: str, values: OpValues) -> LevelValues:
    """The largest value, or the sum, inside each box of a level; UsageError if there is no such
    level."""
    of_nodes = np.full(len(index), np.nan)
    for op, value in values.by_op.items():
        number = index.numbers.get(op)
        if number is not None and (values.is_sum or _is_filled(index, number)):
            of_nodes[number] = value
    join = np.nansum if values.is_sum else np.fmax.reduce
    of_scopes = _by_scope(index, of_nodes, values.is_sum)
    boxes: list[BoxValue] = []
    for box in level(index, scope, group).nodes:
        if box.what == "outside":
            continue
        found = [_at(index, path, of_nodes, of_scopes) for path in box.members or (box.path,)]
        if not np.isnan(found).all():
            boxes.append(BoxValue(box.path, to_wire(float(join(found)))))
    shown = np.concatenate((of_nodes, of_scopes)) if values.is_sum else of_nodes
    finite = shown[np.isfinite(shown)]
    least, most = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    known = int(np.count_nonzero(~np.isnan(of_nodes)))
    return LevelValues(values.statistic, values.step, tuple(boxes), least, most, known)


def _is_filled(index: GraphIndex, number: int) -> bool:
    """Whether ops have written what a node returns; what ``empty_like`` returns is arbitrary."""
    node = index.nodes[number]
    slots = range(len(node.outputs))
    return all(index.memory.is_filled(node.name, slot) for slot in slots)


def _by_scope(
    index: GraphIndex, of_nodes: NDArray[np.float64], is_sum: bool
) -> NDArray[np.float64]:
    found = np.full(len(index.scopes), np.nan)
    for row in index.ancestors:
        inside = (row >= 0) & ~np.isnan(of_nodes)
        if is_sum:
            found[row[inside]] = np.nan_to_num(found[row[inside]])
            np.add.at(found, row[inside], of_nodes[inside])
        else:
            np.fmax.at(found, row[inside], of_nodes[inside])
    return found


def _at(
    index: GraphIndex, path: str, of_nodes: NDArray[np.float64], of_scopes: NDArray[np.float64]
) -> float:
    if path.endswith("/"):
        return float(of_scopes[index.scope(path)])
    number = index.numbers.get(path)
    return float("nan") if number is None else float(of_nodes[number])
