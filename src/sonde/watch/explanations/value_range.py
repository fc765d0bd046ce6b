"""The range of element types: what makes Inf of finite numbers."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sonde.watch.explanations.cause import Cause, compare_places, number, share, verb
from sonde.watch.explanations.op_facts import OpFacts, is_kind

LARGEST: Final[dict[str, float]] = {
    "float64": float(np.finfo(np.float64).max),
    "float32": float(np.finfo(np.float32).max),
    "bfloat16": 3.3895313892515355e38,
    "float16": 65504.0,
    "float8_e5m2": 57344.0,
    "float8_e4m3fn": 448.0,
}
"""The largest finite number of each element type."""
_SMALL: Final = ("float16", "float8_e5m2", "float8_e4m3fn")
_SCALARS: Final = ("other", "alpha", "beta", "value", "exponent")
_LOWER_THE_SCALE: Final = (
    "Compute this op in float32 or bfloat16 (autocast), or make its inputs smaller: a lower loss "
    "scale, a lower learning rate, a normalisation before it."
)
_FIND_THE_GROWTH: Final = "Look where its inputs grew: the learning rate, a missing normalisation."


def natural_logarithm_limit(dtype: str) -> float | None:
    """The largest x for which exp(x) is finite: 88.72 for float32, 11.09 for float16."""
    largest = LARGEST.get(dtype)
    return None if largest is None else math.log(largest)


def explain_range(op: OpFacts) -> Cause | None:
    """For sums and products of finite numbers: Inf means that the result is beyond the range."""
    output = op.output
    if output is None or output.count("nan") or not op.is_complete:
        return None
    largest = LARGEST.get(output.dtype)
    inputs = [each for each in op.inputs if each.is_float]
    if largest is None or not inputs or any(each.count("non-finite") for each in inputs):
        return None
    magnitudes = [
        _magnitude(each.number("finite_max"), each.number("finite_min")) for each in inputs
    ]
    if any(each is None for each in magnitudes):
        return None
    known = [each for each in magnitudes if each is not None]
    reach = " and ".join(number(each) for each in known[:3])
    noun = "its input reaches" if len(known) == 1 else "its inputs reach"
    scalars = {name: value for name in _SCALARS if (value := op.scalar(name)) not in (None, 1, -1)}
    given = "".join(f", {name} is {number(value)}" for name, value in scalars.items() if value)
    return Cause(
        "beyond_the_range",
        f"its result is beyond {number(largest)}, the largest {output.dtype}: {noun} {reach} in "
        f"magnitude{given}",
        {
            "largest_of_dtype": largest,
            "dtype": output.dtype,
            "input_magnitudes": known,
            **scalars,
        },
        advice=_LOWER_THE_SCALE if output.dtype in _SMALL else _FIND_THE_GROWTH,
    )


def _magnitude(high: float | None, low: float | None) -> float | None:
    return None if high is None or low is None else max(abs(high), abs(low))


def explain_cast(op: OpFacts) -> Cause | None:
    """A conversion to a type with a smaller range."""
    output, source = op.output, op.input(0)
    largest = None if output is None else LARGEST.get(output.dtype)
    if output is None or source is None or largest is None or source.count("non-finite"):
        return None
    values, made = source.array, output.array
    if values is None or made is None or values.shape != made.shape:
        return explain_range(op)
    beyond = np.abs(values.astype(np.float64)) > largest
    places = compare_places(beyond, is_kind(made, "inf"), "inf")
    if places is None:
        return explain_range(op)
    count = int(beyond.sum())
    magnitude = float(np.abs(values.astype(np.float64)).max())
    return Cause(
        "beyond_the_range",
        f"{share(count, source)} {verb(count)} beyond {number(largest)}, the largest "
        f"{output.dtype} (largest magnitude {number(magnitude)}){places.text}",
        {
            "inputs": source.size,
            "inputs_beyond": count,
            "largest_of_dtype": largest,
            "largest_magnitude": magnitude,
            "explained": places.explained,
        },
        places.status,
        _LOWER_THE_SCALE,
    )
