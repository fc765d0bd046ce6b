"""The parameters of one network, or of two networks paired, with their statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sonde.compare.parameter_names import Role, is_trainable, role_of
from sonde.compare.weights.checkpoint import Checkpoint, Weight, distances
from sonde.compare.weights.fit import Fit, other_orders
from sonde.compare.weights.pair import (
    FlatParameter,
    ParameterPair,
    ParameterPairing,
    pair_parameters,
)
from sonde.core.errors import SondeError
from sonde.kernels import Distances

Numbers = Mapping[str, float | int]

_SPREAD_RATIO = 1.5
_SPREAD_COUNT = 64
"""The least number of elements for which standard deviations are compared."""


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One parameter. ``trainable`` is None if neither file nor name shows it.

    ``numbers`` (count, min, max, avg, std, l2norm, nan count, inf count, zero count) are those of
    ``core.statistics``; fewer from a dump of statistics, none for complex elements.
    """

    weight: Weight
    role: Role
    trainable: bool | None
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class PairRow:
    """Two corresponding parameters.

    ``distances`` is None if a side has no values or only one is complex; then ``is_same`` is
    whether the common statistics are equal (None if there are none). ``hidden`` is a transposition
    that the shapes do not show and that makes the values equal. ``notes`` say if the values have
    different distributions.
    """

    pair: ParameterPair
    a: ParameterRow
    b: ParameterRow
    distances: Distances | None
    is_same: bool | None
    hidden: Fit | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParameterComparison:
    """Two networks' parameters, paired."""

    a: Mapping[str, ParameterRow]
    b: Mapping[str, ParameterRow]
    pairing: ParameterPairing
    rows: tuple[PairRow, ...]
    flat: tuple[tuple[FlatParameter, Distances | None], ...]


def list_parameters(checkpoint: Checkpoint) -> dict[str, ParameterRow]:
    """Every parameter with role and numbers, in the file's order; reads each once."""
    names = checkpoint.weights.keys()
    rows: dict[str, ParameterRow] = {}
    for name, weight in checkpoint.weights.items():
        role = role_of(name, names)
        trainable = is_trainable(name, role) if weight.trainable is None else weight.trainable
        rows[name] = ParameterRow(weight, role, trainable, numbers_of(weight))
    return rows


def compare_parameters(a: Checkpoint, b: Checkpoint) -> ParameterComparison:
    """Pair the parameters of two checkpoints or dumps and compare each pair's values."""
    rows_a, rows_b = list_parameters(a), list_parameters(b)
    pairing = pair_parameters(a.shapes, b.shapes)
    rows = tuple(_row(pair, rows_a[pair.a], rows_b[pair.b]) for pair in pairing.pairs)
    flat = tuple((each, _flat_distances(each, a, b)) for each in pairing.flat)
    return ParameterComparison(rows_a, rows_b, pairing, rows, flat)


def numbers_of(weight: Weight) -> Numbers:
    """The statistics of a weight by name; those of the dump if there are no values."""
    found = weight.statistics()
    if found is None:
        return {
            name: value
            for name, value in (weight.summary or {}).items()
            if not isinstance(value, str)
        }
    return {
        "count": found.count,
        "min": found.min,
        "max": found.max,
        "avg": found.avg,
        "std": found.std,
        "l2norm": found.l2norm,
        "nan count": found.nan_count,
        "inf count": found.positive_inf_count + found.negative_inf_count,
        "zero count": found.zero_count,
    }


def weight_distances(a: Weight, b: Weight, found: Fit) -> Distances | None:
    """How ``b`` differs from the reference ``a``; ``found`` brings b to the shape of a.

    None if a side has no values or they have no order.
    """
    if a.load is None or b.load is None:
        return None
    try:
        return distances(found.apply(b.bits(), a.shape), b.storage, a.bits(), a.storage)
    except SondeError as error:
        if error.slug == "statistics-dtype":
            return None
        raise


def _row(pair: ParameterPair, a: ParameterRow, b: ParameterRow) -> PairRow:
    measured = weight_distances(a.weight, b.weight, pair.fit)
    hidden = None
    if measured is None:
        is_same = _same_numbers(a.numbers, b.numbers)
    else:
        is_same = measured.is_equal and a.weight.dtype == b.weight.dtype
        if not measured.is_equal and pair.fit.is_plain:
            hidden = _hidden(a.weight, b.weight)
    notes = () if is_same or hidden is not None else _spread(a.numbers, b.numbers)
    return PairRow(pair, a, b, measured, is_same, hidden, notes)


def _same_numbers(a: Numbers, b: Numbers) -> bool | None:
    """Whether the common statistics are equal in float32; NaN equals NaN."""
    common = (a.keys() & b.keys()) - {"count"}
    if not common:
        return None
    return all(
        np.array_equal(np.float32(a[key]), np.float32(b[key]), equal_nan=True) for key in common
    )


def _hidden(a: Weight, b: Weight) -> Fit | None:
    for order in other_orders(a.shape):
        if np.array_equal(a.numbers(), order.apply(b.numbers(), a.shape), equal_nan=True):
            return order
    return None


def _spread(a: Numbers, b: Numbers) -> tuple[str, ...]:
    """A note if the standard deviations differ more than by chance."""
    std_a, std_b = float(a.get("std", math.nan)), float(b.get("std", math.nan))
    if min(a.get("count", 0), b.get("count", 0)) < _SPREAD_COUNT:
        return ()
    if not (math.isfinite(std_a) and math.isfinite(std_b)):
        return ()
    low, high = sorted((std_a, std_b))
    if high > _SPREAD_RATIO * low:
        return (f"other spread: std {std_a:.3g} against {std_b:.3g}",)
    return ()


def _flat_distances(flat: FlatParameter, a: Checkpoint, b: Checkpoint) -> Distances | None:
    whole_side, parts_side = (a, b) if flat.flat_is_a else (b, a)
    whole = whole_side.weights[flat.flat]
    parts = [parts_side.weights[name] for name in flat.parts]
    if whole.load is None or any(part.load is None for part in parts):
        return None
    joined = np.concatenate([part.numbers().reshape(-1) for part in parts])
    numbers = whole.numbers().reshape(-1)
    first, second = (numbers, joined) if flat.flat_is_a else (joined, numbers)
    return distances(first, first.dtype.name, second, second.dtype.name)
