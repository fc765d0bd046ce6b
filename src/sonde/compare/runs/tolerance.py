"""Bounds the error of an op, given the errors of its inputs.

The unit is the *roundoff* of a dtype: half the distance between 1 and the next number. An op
rounds its result, or the terms of its sums: ``OWN`` is the number of roundoffs that it may add.
What the errors of its inputs become depends on what it computes; each rule below is a bound, or an
estimate for errors without direction, in L2 norms, which account for cancellation: a sum whose
terms cancel keeps the error of the terms. ``docs/compare.md`` has the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan, sqrt
from typing import Final

ROUNDOFF: Final = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e4m3fnuz": 2.0**-4,
    "float8_e5m2": 2.0**-3,
    "float8_e5m2fnuz": 2.0**-3,
    "complex64": 2.0**-24,
    "complex128": 2.0**-53,
}
"""Integers and booleans are exact."""

OWN: Final = {
    "identity": 1.0,
    "movement": 1.0,
    "elementwise": 8.0,
    "sum": 4.0,
    "product": 16.0,
    "reduction": 8.0,
    "normalisation": 32.0,
    "exponential": 32.0,
    "loss": 32.0,
    "mask": 8.0,
    "normalisation backward": 64.0,
    "update": 16.0,
    "random": 0.0,
    "uninitialised": inf,
    "other": 64.0,
}
"""The roundoffs that an op may add on its own."""

GAIN: Final = 4.0
"""The factor by which a relative error may grow in one op beyond its conditioning."""


_NOISE: Final = 0.3
"""From this relative error on, a gradient is as much noise as signal."""


@dataclass(frozen=True, slots=True)
class Signal:
    """The size of a tensor and of its error, in norms; ``error`` is relative.

    ``mean_relative_error`` is over single elements: about the share of elements that are noise.
    """

    l2_error: float
    norm: float
    count: int
    max_abs_error: float
    mean_relative_error: float = 0.0

    @property
    def error(self) -> float:
        if self.l2_error == 0:
            return 0.0
        return self.l2_error / self.norm if self.norm else inf


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """Absolute L2 errors: what the op may add on its own, and in total."""

    own: float
    total: float


def allow(
    behaviour: str,
    kind: str,
    out: Signal,
    inputs: Sequence[Signal],
    roundoff: float,
    conditioning: float = 1.0,
) -> ErrorBound:
    """The error that ``out`` may have. ``conditioning`` is the ratio of a normalisation's input to
    its deviation from the mean."""
    if isnan(out.norm):
        return ErrorBound(0.0, inf)
    units = OWN[behaviour]
    moves = kind in ("slice", "concat", "embedding", "masked_fill", "where")
    if moves or behaviour in ("identity", "movement"):
        return _moved(out, inputs, units * roundoff)
    if behaviour == "sum":
        return _summed(out, inputs, units * roundoff)
    if behaviour == "product":
        return _multiplied(out, inputs, roundoff, units)
    if behaviour == "reduction":
        return _reduced(kind, out, inputs, roundoff, units)
    if behaviour in ("exponential", "loss"):
        return _exponential(kind, out, inputs, units * roundoff)
    if behaviour == "normalisation backward":
        return _normalised_backward(out, inputs, units * roundoff, conditioning)
    own = units * roundoff * out.norm * conditioning
    error = sum(each.error for each in inputs if each.error)
    total = own + GAIN * error * conditioning * out.norm
    if behaviour == "mask" and error:
        # A comparison decides about each element: a share as large as the error may flip.
        total += (2 * sqrt(min(error, 1.0)) + 3 / sqrt(max(out.count, 1))) * out.norm
    elif behaviour == "update":
        # An update divided by its size is a sign: the signs of small gradients may flip.
        if error > _NOISE:
            return ErrorBound(own, inf)
        noise = max((each.mean_relative_error for each in inputs), default=0.0)
        total += (6 * sqrt(error) + 3 * sqrt(noise)) * out.norm
    return ErrorBound(own, total)


def _spread(out: Signal, each: Signal) -> float:
    """The growth of a norm when a smaller tensor is broadcast to the size of the output."""
    return sqrt(max(1.0, out.count / each.count)) if each.count else 1.0


def _moved(out: Signal, inputs: Sequence[Signal], own: float) -> ErrorBound:
    """The same elements, or some of them: the absolute error does not grow."""
    mine = own * out.norm
    return ErrorBound(mine, mine + 1.5 * sum(each.l2_error * _spread(out, each) for each in inputs))


def _summed(out: Signal, inputs: Sequence[Signal], own: float) -> ErrorBound:
    terms = sum(each.norm * _spread(out, each) for each in inputs)
    mine = own * max(out.norm, terms)
    return ErrorBound(mine, mine + 2 * sum(each.l2_error * _spread(out, each) for each in inputs))


def _multiplied(out: Signal, inputs: Sequence[Signal], roundoff: float, units: float) -> ErrorBound:
    """Two factors, and perhaps an added term. The sums have about ``length`` terms; without
    cancellation the norm of the product is that of the factors over the root of the length."""
    factors = sorted(inputs, key=lambda each: -each.count)[:2]
    if len(factors) < 2:
        own = units * roundoff * out.norm
        return ErrorBound(own, own + GAIN * sum(each.error for each in inputs) * out.norm)
    x, y = factors
    length = max(1.0, sqrt(x.count * y.count / max(out.count, 1)))
    size = max(out.norm, x.norm * y.norm / sqrt(length))
    own = (units + 2 * sqrt(length)) * roundoff * size
    added = sum(each.l2_error * _spread(out, each) for each in inputs if each not in factors)
    return ErrorBound(own, own + GAIN * (x.error + y.error) * size + 2 * added)


def _reduced(
    kind: str, out: Signal, inputs: Sequence[Signal], roundoff: float, units: float
) -> ErrorBound:
    """Errors without direction keep their norm in a sum; errors with a direction grow at most by
    the root of the number of terms. Adding the terms one by one rounds as often."""
    whole = max(inputs, key=lambda each: each.count, default=out)
    terms = max(1.0, whole.count / max(out.count, 1))
    scale = (
        1 / sqrt(terms) if kind == "mean" else 1.0 if kind == "embedding_backward" else terms**0.5
    )
    single = whole.norm / terms if kind == "mean" else whole.norm
    own = (units + 2 * sqrt(terms)) * roundoff * max(out.norm, single)
    return ErrorBound(own, own + 2 * sum(each.l2_error for each in inputs) * scale)


def _exponential(kind: str, out: Signal, inputs: Sequence[Signal], own: float) -> ErrorBound:
    """An absolute error of the input is a relative error of the output (softmax, exp), or an
    absolute one (log-softmax, losses)."""
    largest = max((each.max_abs_error for each in inputs if each.l2_error), default=0.0)
    error = sum(each.error for each in inputs if each.error)
    mine = own * out.norm
    if kind in ("softmax", "exp"):
        return ErrorBound(mine, mine + min(2 * largest, 2.0) * out.norm + GAIN * error * out.norm)
    size = sqrt(max(out.count, 1))
    mine = max(mine, own * size)
    return ErrorBound(mine, mine + 2 * largest * size + GAIN * error * out.norm)


def _normalised_backward(
    out: Signal, inputs: Sequence[Signal], own: float, conditioning: float
) -> ErrorBound:
    """The gradient without its mean and its part along the normalised input; or sums of it."""
    gradient = inputs[0] if inputs else out
    error = sum(each.error for each in inputs if each.error)
    if out.count < gradient.count:
        terms = sqrt(gradient.count / max(out.count, 1))
        mine = own * conditioning * max(out.norm, gradient.norm)
        return ErrorBound(
            mine, mine + 2 * error * conditioning * max(gradient.norm * terms, out.norm)
        )
    mine = own * conditioning * out.norm
    return ErrorBound(mine, mine + 2 * GAIN * error * conditioning * out.norm)
