"""Says which ranks are at fault where a merged tensor differs, and what they did."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sonde.compare.runs.merging.both_sides import MergedSides
from sonde.compare.runs.merging.gradients import missing_before
from sonde.compare.runs.merging.merge import ranks_text
from sonde.compare.runs.merging.plan import is_equal_along
from sonde.compare.runs.merging.record import MergedRecord
from sonde.compare.runs.result import RankFault
from sonde.compare.runs.tensor_pairs import PendingPair
from sonde.core.errors import DumpError
from sonde.watch.hit_text import COLLECTIVES

_PROPORTIONAL: Final = 1e-3
"""The relative error up to which two tensors are multiples of each other."""


def describe_fault(pair: PendingPair, merged: MergedSides) -> RankFault | None:
    """What is known about the ranks at fault; None if nothing is."""
    for task in pair.tasks:
        for record, other in ((task.a, task.b), (task.b, task.a)):
            if not isinstance(record, MergedRecord):
                continue
            try:
                return _fault(pair, merged, record, other.numpy())
            except (DumpError, ValueError):
                continue
    return None


def _fault(
    pair: PendingPair, merged: MergedSides, record: MergedRecord, reference: NDArray[Any]
) -> RankFault:
    ranks = record.ranks_that_differ(reference, pair.allowed)
    absent = missing_before(merged, pair.a, ranks)
    if absent is not None:
        left_out = merged.from_a.missing[absent.name]
        verb = "does" if len(left_out) == 1 else "do"
        short = absent.name.rpartition("/")[2]
        text = f"{ranks_text(left_out)} {verb} not run {short}, which the others run"
        return RankFault(left_out, "missing-on-rank", text, absent.source)
    parts = record.read()
    is_equal = all(is_equal_along(parts, axis) for axis in range(len(record.grid.axes)))
    is_exchanged = pair.how == "place" and pair.a.type.startswith(COLLECTIVES)
    if pair.how == "gradient" or is_exchanged:
        text = _about_gradient(record, ranks, reference)
        return RankFault(() if is_equal else ranks, "gradient", text)
    return RankFault(() if is_equal else ranks)


def _about_gradient(record: MergedRecord, ranks: tuple[int, ...], reference: NDArray[Any]) -> str:
    parts = record.read()
    grid = record.grid
    replicated = [
        number for number, rule in enumerate(record.plan.rules) if rule.rule in ("one", "same")
    ]
    if any(not is_equal_along(parts, axis) for axis in replicated):
        if len(ranks) < len(grid.ranks):
            return "its gradient is another one than that of the other ranks"
        return "each rank uses a gradient of its own: it is not exchanged between the ranks"
    merged = record.numpy()
    ratio = _ratio(merged, reference)
    if ratio is None:
        return "the gradient that is used is not the one that was computed"
    count = len(grid.ranks)
    meaning = ""
    if abs(ratio - count) < _PROPORTIONAL * count and count > 1:
        meaning = ": summed over the ranks, not averaged"
    elif abs(ratio * count - 1) < _PROPORTIONAL and count > 1:
        meaning = ": divided by the number of ranks once too often"
    return f"the gradient that is used is {ratio:.4g} times that of b{meaning}"


def _ratio(a: NDArray[Any], b: NDArray[Any]) -> float | None:
    """The factor between two tensors; None if they are not multiples of each other."""
    if a.size != b.size:
        return None
    x = np.asarray(a, np.float64).reshape(-1)
    y = np.asarray(b, np.float64).reshape(-1)
    square = float(y @ y)
    if not square or not isfinite(square):
        return None
    ratio = float(x @ y) / square
    distance = float(np.linalg.norm(x - ratio * y))
    return ratio if distance <= _PROPORTIONAL * float(np.linalg.norm(x)) else None
