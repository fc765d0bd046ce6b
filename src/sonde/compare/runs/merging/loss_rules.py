"""Decides whether the losses of ranks and micro-batches are summed or averaged."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import product
from math import inf, prod
from typing import Final

import numpy as np

from sonde.compare.run_layout import Rule
from sonde.compare.runs.loss import loss_op
from sonde.compare.runs.merging.grid import MICRO_BATCHES
from sonde.compare.runs.merging.plan import Place, is_equal_along
from sonde.compare.runs.merging.planning import SidePlanner
from sonde.core.errors import DumpError

_MEAN_OR_SUM: Final[tuple[Rule, Rule]] = ("mean", "sum")
_SUM_OR_MEAN: Final[tuple[Rule, Rule]] = ("sum", "mean")


def losses_of(planner: SidePlanner) -> dict[Place, float]:
    """The losses of all places; empty if one cannot be read."""
    op = loss_op(planner.found.side)
    if op is None:
        return {}
    parts = planner.found.parts.get((planner.found.name(op.name), "output", op.value.slot), {})
    try:
        found = {place: record.single_number() for place, record in parts.items()}
    except DumpError:
        return {}
    return {place: value for place, value in found.items() if value is not None}


def set_loss_rules(planner: SidePlanner, losses: Mapping[Place, float], wanted: float) -> float:
    """Set the rule of each axis; the loss of the whole."""
    arrays = {place: np.array([value]) for place, value in losses.items()}
    axes = [
        number
        for number in range(len(planner.found.grid.axes))
        if not is_equal_along(arrays, number)
    ]
    planner.batch_axes = frozenset(axes)
    # Programs divide the loss by the number of micro-batches; DDP divides by that of ranks.
    summed = [
        number for number, axis in enumerate(planner.found.grid.axes) if axis.name == MICRO_BATCHES
    ]
    rules, whole = _nearest_rules(losses, axes, wanted, summed)
    planner.losses = tuple(
        rules.get(number, "sum") for number in range(len(planner.found.grid.axes))
    )
    return whole


def _nearest_rules(
    values: Mapping[Place, float], axes: Sequence[int], wanted: float, summed: Container[int]
) -> tuple[dict[int, Rule], float]:
    """Whether the whole is the mean or the sum of ``values`` along each of ``axes``, whichever is
    nearer to ``wanted``, and the whole. If several are equally near: the sum along the axes
    ``summed``, the mean along the others."""
    best: dict[int, Rule] = {}
    best_error, whole = inf, 0.0
    total = sum(values.values())
    counts = {axis: len({place[axis] for place in values}) for axis in axes}
    others = len(values) // max(prod(counts.values()), 1)
    options = [_SUM_OR_MEAN if axis in summed else _MEAN_OR_SUM for axis in axes]
    for choice in product(*options):
        rules = dict(zip(axes, choice, strict=True))
        number = total / max(others, 1)
        for axis, rule in rules.items():
            number /= counts[axis] if rule == "mean" else 1
        error = abs(number - wanted)
        if error < best_error:
            best, best_error, whole = rules, error, number
    return best, whole
