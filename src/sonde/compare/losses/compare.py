"""Compares two loss curves: the first step out of tolerance, the drift, and the verdict.

The reasoning is that of MindSpore's guide to network debugging: a difference in the first step
comes from the forward pass, one in the second step from gradients or update; errors of about one
thousandth are usual, and grow with the number of steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sonde.core.errors import UsageError

DEFAULT_RTOL = 1e-3
DEFAULT_ATOL = 1e-8
_JUMP = 20.0
"""An error this many times larger than those of the steps before is a jump, not a drift."""
_BEFORE = 5

Verdict = Literal["equal", "aligned", "first-step", "second-step", "jump", "drift"]
By = Literal["auto", "step", "order"]


@dataclass(frozen=True, slots=True)
class LossSeries:
    """The losses of a run by step, in order; values may be NaN or infinite.

    ``notes`` are the assumptions made while reading it.
    """

    origin: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Drift:
    """How the relative error develops over the steps where both losses are finite.

    ``early`` and ``late`` are its means over the first and the last third; ``per_100_steps`` is
    the slope of a straight line through it; ``bias`` the mean of (b - a) / max(|a|, |b|): near
    plus or minus ``early``..``late`` when one curve stays above the other, near 0 when they cross.
    All are NaN for fewer than three such steps.
    """

    early: float
    late: float
    per_100_steps: float
    bias: float


@dataclass(frozen=True, slots=True)
class LossComparison:
    """Two curves, point by point: ``steps`` are those of a.

    ``errors`` are |a - b| / max(|a|, |b|): 0 for two equal numbers, two NaN and two equal
    infinities; infinite if only one is finite, or for infinities of different signs. ``out`` is
    true where |a - b| > atol + rtol * max(|a|, |b|), or only one side is finite.
    ``first_out`` is an index into the points; None when all are within tolerance.
    """

    a: LossSeries
    b: LossSeries
    steps: tuple[int, ...]
    values_a: NDArray[np.float64]
    values_b: NDArray[np.float64]
    errors: NDArray[np.float64]
    out: NDArray[np.bool_]
    rtol: float
    atol: float
    by: Literal["step", "order"]
    verdict: Verdict
    first_out: int | None
    drift: Drift
    first_bad_a: int | None
    first_bad_b: int | None
    notes: tuple[str, ...]

    @property
    def is_aligned(self) -> bool:
        return self.first_out is None


def compare_losses(
    a: LossSeries,
    b: LossSeries,
    *,
    rtol: float = DEFAULT_RTOL,
    atol: float = DEFAULT_ATOL,
    by: By = "auto",
) -> LossComparison:
    """Compare two curves; a UsageError when they have no step in common.

    ``by``: compare points with equal step numbers, or the n-th points. "auto" compares equal step
    numbers, except for two curves of the same length with different step numbers.
    """
    points, how, notes = _joined(a, b, by)
    steps, values_a, values_b = zip(*points, strict=True)
    losses_a, losses_b = np.array(values_a, np.float64), np.array(values_b, np.float64)
    errors = relative_errors(losses_a, losses_b)
    out = _out_of_tolerance(losses_a, losses_b, rtol, atol)
    first = int(np.argmax(out)) if out.any() else None
    return LossComparison(
        a=a,
        b=b,
        steps=steps,
        values_a=losses_a,
        values_b=losses_b,
        errors=errors,
        out=out,
        rtol=rtol,
        atol=atol,
        by=how,
        verdict=_verdict(errors, first),
        first_out=first,
        drift=_drift(steps, losses_a, losses_b, errors),
        first_bad_a=_first_bad(a),
        first_bad_b=_first_bad(b),
        notes=(*a.notes, *b.notes, *notes),
    )


def relative_errors(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """|a - b| / max(|a|, |b|) with the policy of `LossComparison`."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        largest = np.maximum(np.abs(a), np.abs(b))
        found: NDArray[np.float64] = np.abs(a / largest - b / largest)
        found[~np.isfinite(a) | ~np.isfinite(b)] = np.inf
    found[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    return found


def _out_of_tolerance(
    a: NDArray[np.float64], b: NDArray[np.float64], rtol: float, atol: float
) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = atol + rtol * np.maximum(np.abs(a), np.abs(b))
        within: NDArray[np.bool_] = np.abs(a - b) <= allowed
        within &= np.isfinite(a) & np.isfinite(b)
    found: NDArray[np.bool_] = ~(within | (a == b) | (np.isnan(a) & np.isnan(b)))
    return found


def _joined(
    a: LossSeries, b: LossSeries, by: By
) -> tuple[list[tuple[int, float, float]], Literal["step", "order"], list[str]]:
    """The points to compare as (step, loss of a, loss of b), how they were paired, and notes."""
    for curve in (a, b):
        if not curve.values:
            raise UsageError(f"{curve.origin} has no losses", slug="loss-empty")
    lengths = f"a has {len(a.steps)} steps, b {len(b.steps)}"
    notes: list[str] = []
    has_other_numbers = len(a.steps) == len(b.steps) and a.steps != b.steps
    if by == "order" or (by == "auto" and has_other_numbers):
        points = list(zip(a.steps, a.values, b.values, strict=False))
        if by == "auto":
            starts = f"the steps begin at {a.steps[0]} and {b.steps[0]}"
            notes.append(f"{starts}: compared in order, not by number")
        if len(a.steps) != len(b.steps):
            notes.append(f"{lengths}: the first {len(points)} are compared")
        return points, "order", notes
    of_b = dict(zip(b.steps, b.values, strict=True))
    points = [(s, v, of_b[s]) for s, v in zip(a.steps, a.values, strict=True) if s in of_b]
    if not points:
        raise UsageError(
            f"no step is in both curves: {a.origin} has {a.steps[0]} to {a.steps[-1]}, {b.origin} "
            f"{b.steps[0]} to {b.steps[-1]}; --by order compares them in order",
            slug="loss-steps",
        )
    if len(points) < max(len(a.steps), len(b.steps)):
        notes.append(f"{lengths}: the {len(points)} that both have are compared")
    return points, "step", notes


def _verdict(errors: NDArray[np.float64], first: int | None) -> Verdict:
    if first is None:
        return "aligned" if errors.any() else "equal"
    if first == 0:
        return "first-step"
    if first == 1:
        return "second-step"
    before = float(np.max(errors[max(0, first - _BEFORE) : first]))
    return "jump" if errors[first] > _JUMP * before else "drift"


def _drift(
    steps: tuple[int, ...],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    errors: NDArray[np.float64],
) -> Drift:
    finite = np.isfinite(a) & np.isfinite(b)
    if int(finite.sum()) < 3:
        return Drift(math.nan, math.nan, math.nan, math.nan)
    found, place = errors[finite], np.array(steps, np.float64)[finite]
    third = max(1, len(found) // 3)
    slope = float(np.polyfit(place - place[0], found, 1)[0]) if np.ptp(place) else math.nan
    signed = np.where(b[finite] >= a[finite], found, -found)
    return Drift(
        float(found[:third].mean()),
        float(found[-third:].mean()),
        100 * slope,
        float(signed.mean()),
    )


def _first_bad(curve: LossSeries) -> int | None:
    """The first step whose loss is NaN or infinite."""
    pairs = zip(curve.steps, curve.values, strict=True)
    return next((step for step, value in pairs if not math.isfinite(value)), None)
