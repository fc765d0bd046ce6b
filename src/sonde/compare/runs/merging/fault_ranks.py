"""Says which ranks are at fault where a merged tensor differs, and what they did."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from sonde.compare.runs.merging.both_sides import MergedSides
from sonde.compare.runs.merging.gradients import unlike_before
from sonde.compare.runs.merging.plan import is_equal_along
from sonde.compare.runs.merging.record import MergedRecord
from sonde.compare.runs.result import RankFault
from sonde.compare.runs.tensor_pairs import PendingPair
from sonde.core.errors import DumpError
from sonde.core.text.rank_numbers import ranks_text
from sonde.watch.hit_text import COLLECTIVES

_PROPORTIONAL: Final = 1e-3
"""The relative error up to which two tensors are multiples of each other."""


def describe_fault(pair: PendingPair, merged: MergedSides) -> RankFault | None:
    """What is known about the ranks at fault; None if nothing is."""
    for task in pair.tasks:
        for side, record, other in (("a", task.a, task.b), ("b", task.b, task.a)):
            if not isinstance(record, MergedRecord):
                continue
            try:
                return _fault(pair, merged, "a" if side == "a" else "b", record, other.numpy())
            except (DumpError, ValueError):
                continue
    return None


def _fault(
    pair: PendingPair,
    merged: MergedSides,
    side: Literal["a", "b"],
    record: MergedRecord,
    reference: NDArray[Any],
) -> RankFault:
    ranks = record.ranks_that_differ(reference, pair.allowed)
    unlike = _unlike(pair, merged, side, ranks)
    if unlike is not None:
        return unlike
    parts = record.read()
    is_equal = all(is_equal_along(parts, axis) for axis in range(len(record.grid.axes)))
    op = pair.a if side == "a" else pair.b
    is_exchanged = pair.how == "place" and op.type.startswith(COLLECTIVES)
    if pair.how == "gradient" or is_exchanged:
        what = "the gradient that is used" if pair.how == "gradient" else "the exchanged value"
        text = _about_exchange(what, side, record, ranks, reference)
        return RankFault(() if is_equal else ranks, "gradient", text)
    if is_equal and any(rule.rule == "concat" for rule in record.plan.rules):
        return RankFault(ranks, text="its shards are the same on all ranks")
    return RankFault(() if is_equal else ranks)


def _unlike(
    pair: PendingPair, merged: MergedSides, side: Literal["a", "b"], ranks: tuple[int, ...]
) -> RankFault | None:
    """What the ranks at fault ran, or did not run, unlike the others."""
    ran = merged.from_a if side == "a" else merged.from_b
    own, op = (merged.a, pair.a) if side == "a" else (merged.b, pair.b)
    unlike = unlike_before(own, ran, op, ranks)
    if unlike is None:
        return None
    first, absent = unlike
    short = first.name.rpartition("/")[2]
    if set(ranks) & set(absent):
        verb = "does" if len(absent) == 1 else "do"
        text = f"{ranks_text(absent)} {verb} not run {short}, which the others run"
        return RankFault(absent, "missing-on-rank", text, first.source, side)
    verb = "runs" if len(ranks) == 1 else "run"
    text = f"{ranks_text(ranks)} {verb} {short}, which the others do not run"
    return RankFault(ranks, "missing-on-rank", text, first.source, side)


def _about_exchange(
    what: str,
    side: Literal["a", "b"],
    record: MergedRecord,
    ranks: tuple[int, ...],
    reference: NDArray[Any],
) -> str:
    parts = record.read()
    grid = record.grid
    replicated = [
        number for number, rule in enumerate(record.plan.rules) if rule.rule in ("one", "same")
    ]
    if any(not is_equal_along(parts, axis) for axis in replicated):
        if len(ranks) < len(grid.ranks):
            return f"{what} is another one than that of the other ranks"
        return f"{what} differs on each rank: it is not exchanged between the ranks"
    merged = record.numpy()
    ratio = _ratio(merged, reference)
    if ratio is None:
        return f"{what} is not the one that was computed"
    count = len(grid.ranks)
    meaning = ""
    if abs(ratio - count) < _PROPORTIONAL * count and count > 1:
        meaning = ": summed over the ranks, not averaged"
    elif abs(ratio * count - 1) < _PROPORTIONAL and count > 1:
        meaning = ": divided by the number of ranks once too often"
    return f"{what} is {ratio:.4g} times that of {'b' if side == 'a' else 'a'}{meaning}"


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
