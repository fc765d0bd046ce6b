"""How the parts of one tensor become the whole tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from sonde.compare.run_layout import AxisRule, Rule

Origin = Literal["recorded", "file", "inferred"]
Place = tuple[int, ...]
Parts = Mapping[Place, NDArray[Any]]
Shape = tuple[int, ...]
Rules = tuple[AxisRule, ...]


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Rows of the merged batch in the order of the reference; a larger dimension has several rows
    for each of them. ``axes``: those along which the batch is divided."""

    rows: tuple[int, ...]
    axes: frozenset[int]

    def apply(self, values: NDArray[Any], rules: Sequence[AxisRule]) -> NDArray[Any]:
        dims = {
            (rule.dim, rule.blocks)
            for number, rule in enumerate(rules)
            if rule.rule == "concat" and number in self.axes
        }
        rows, count = np.array(self.rows), len(self.rows)
        for dim, blocks in dims:
            each, rest = divmod(values.shape[dim], count)
            if rest:
                continue
            if blocks == each > 1:
                order = np.add.outer(np.arange(blocks) * count, rows)
            else:
                order = np.add.outer(rows * each, np.arange(each))
            values = np.take(values, order.reshape(-1), axis=dim)
        return values


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The rules for all axes of the grid. ``scale``: what the result is multiplied with.
    ``default``: per axis, the rule that ``same`` stands for where its parts differ; ``is_free``: a
    sum or a mean, whichever is nearer to the other side. ``scales``: other factors that are tried,
    for single numbers, of which nothing tells how they depend on the size of the batch. ``others``:
    other rules that give the same shape, of which the values tell.
    """

    rules: tuple[AxisRule, ...]
    origin: Origin
    scale: float = 1.0
    default: tuple[Rule, ...] = ()
    is_free: bool = False
    order: RowOrder | None = None
    scales: tuple[float, ...] = (1.0,)
    others: tuple[Rules, ...] = ()

    def merge(self, parts: Parts, rules: Sequence[AxisRule], factor: float = 1.0) -> NDArray[Any]:
        """The whole tensor by ``rules``, which `settled` has made of those of the plan."""
        merged = merge_parts(parts, rules)
        if self.order is not None:
            merged = self.order.apply(merged, rules)
        factor *= self.scale
        if factor != 1.0 and merged.dtype.kind in "fc":
            merged = (merged * factor).astype(merged.dtype)
        return merged

    def settled(self, parts: Parts) -> tuple[AxisRule, ...]:
        """The rules with ``same`` replaced, without a reference."""
        found = list(self.rules)
        for number, rule in enumerate(found):
            if rule.rule == "same":
                equal = is_equal_along(parts, number)
                chosen: Rule = "one" if equal else self.default[number]
                found[number] = replace(rule, rule=chosen)
        return tuple(found)


def merged_shape(shapes: Mapping[Place, Shape], rules: Rules) -> Shape | None:
    """The shape of parts of these shapes when merged; None if they do not fit together."""
    ranks = {len(shape) for shape in shapes.values()}
    if len(ranks) != 1:
        return None
    (rank,) = ranks
    if any(rule.rule == "concat" and rule.dim >= rank for rule in rules):
        return None
    whole: list[int] = []
    for dim in range(rank):
        axes = [
            number for number, rule in enumerate(rules) if rule.rule == "concat" and rule.dim == dim
        ]
        lengths: dict[Place, dict[Place, int]] = {}
        for place, shape in shapes.items():
            inside = tuple(place[number] for number in axes)
            outside = tuple(each for number, each in enumerate(place) if number not in axes)
            lengths.setdefault(outside, {})[inside] = shape[dim]
        totals = {sum(each.values()) for each in lengths.values()}
        if len(totals) != 1:
            return None
        whole.append(totals.pop())
    return tuple(whole)


def merge_parts(parts: Parts, rules: Sequence[AxisRule]) -> NDArray[Any]:
    """Merge axis by axis: inner ones first, then from the last to the first."""
    left = dict(parts)
    inner = [number for number, rule in enumerate(rules) if rule.is_inner]
    outer = [number for number in reversed(range(len(rules))) if number not in inner]
    for axis in (*inner, *outer):
        groups: dict[Place, list[NDArray[Any]]] = {}
        for place in sorted(left):
            key = (*place[:axis], 0, *place[axis + 1 :])
            groups.setdefault(key, []).append(left[place])
        left = {key: _combined(rules[axis], group) for key, group in groups.items()}
    (whole,) = left.values()
    return whole


def is_equal_along(parts: Parts, axis: int) -> bool:
    """Whether the parts are the same, bit for bit, along an axis."""
    first: dict[Place, NDArray[Any]] = {}
    for place in sorted(parts):
        values = parts[place]
        known = first.setdefault((*place[:axis], 0, *place[axis + 1 :]), values)
        if known is not values and (
            known.shape != values.shape or known.tobytes() != values.tobytes()
        ):
            return False
    return True


def _combined(rule: AxisRule, group: Sequence[NDArray[Any]]) -> NDArray[Any]:
    if len(group) == 1 or rule.rule in ("one", "same"):
        return group[0]
    if rule.rule == "last":
        return group[-1]
    if rule.rule == "concat":
        return _concatenated(group, rule)
    first = group[0]
    wide: list[NDArray[Any]] = [values.astype(_wide(first.dtype)) for values in group]
    whole: NDArray[Any] = _REDUCTIONS[rule.rule](wide)
    return whole.astype(first.dtype)


def _concatenated(group: Sequence[NDArray[Any]], rule: AxisRule) -> NDArray[Any]:
    if rule.blocks == 1 or any(values.shape[rule.dim] % rule.blocks for values in group):
        return np.concatenate(group, axis=rule.dim)
    inside = [
        values.reshape(*values.shape[: rule.dim], rule.blocks, -1, *values.shape[rule.dim + 1 :])
        for values in group
    ]
    whole = np.concatenate(inside, axis=rule.dim + 1)
    return whole.reshape(*whole.shape[: rule.dim], -1, *whole.shape[rule.dim + 2 :])


def _wide(dtype: np.dtype[Any]) -> type:
    return np.complex128 if dtype.kind == "c" else np.float64 if dtype.kind == "f" else np.int64


_REDUCTIONS: Final[dict[str, Callable[[list[NDArray[Any]]], Any]]] = {
    "sum": lambda group: reduce(np.add, group),
    "mean": lambda group: reduce(np.add, group) / len(group),
    "norm": lambda group: np.sqrt(reduce(np.add, [np.square(np.abs(each)) for each in group])),
    "max": lambda group: reduce(np.maximum, group),
    "min": lambda group: reduce(np.minimum, group),
}
