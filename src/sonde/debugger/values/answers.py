"""Computes the answers to questions about tensors (``wire.questions``).

Used by the rank for a live training, and by the server for a dump.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sonde import kernels
from sonde.core.errors import SondeError, UsageError
from sonde.core.statistics import CellBy, Statistics
from sonde.debugger.values.slices import Plane, as_floats, parse_plane
from sonde.dump.writing.npy_header import npy_header
from sonde.kernels.downsample import heat_of
from sonde.kernels.histogram import histogram
from sonde.wire.convert import distance_numbers, statistic_numbers
from sonde.wire.numbers import Number, to_wire
from sonde.wire.questions import (
    MOST_CELLS,
    MOST_COLUMNS,
    AskCompare,
    AskHeat,
    AskSummary,
    AskTable,
    Compared,
    DistanceNumbers,
    Heat,
    Histogram,
    Summary,
    Table,
)
from sonde.wire.rank import CHUNK_BYTES
from sonde.wire.shapes import TensorName, TensorType

_MOST_BINS: Final = 1000
_MOST_HEAT: Final = 1024
_BFLOAT16_ULPS: Final = 1 << 16
"""Distance between neighbouring bfloat16 values, in float32 values."""


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """A tensor: its name, its elements, and its type. Where numpy lacks the type (bfloat16), the
    elements are widened and ``dtype`` is the original type."""

    name: TensorName
    array: NDArray[Any]
    dtype: str

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.array.shape)


def answer(
    question: AskSummary | AskTable | AskHeat | AskCompare,
    values: Values,
    other: Values | None = None,
) -> Summary | Table | Heat | Compared:
    """Answer ``question`` about ``values``; ``other`` is the second tensor of AskCompare.
    UsageError if the question cannot be answered."""
    match question:
        case AskSummary():
            return summarize(values, question.bins, question.index)
        case AskTable():
            return tabulate(values, question.index)
        case AskHeat():
            size = (question.rows, question.columns)
            return draw_heat(values, question.index, *size, question.by)
        case AskCompare():
            if other is None:
                raise UsageError(
                    "the second tensor of the comparison is missing", slug="tensor-compare"
                )
            return compare(values, other, question.index, question.tolerance)


def summarize(values: Values, bins: int = 50, index: str = "") -> Summary:
    """Statistics and a histogram of the finite elements at ``index``, or of all; complex tensors
    have neither."""
    array = values.array
    if index:
        array = np.ascontiguousarray(parse_plane(index, array.shape).of(array))
    statistics = statistics_of(array)
    if statistics is None:
        return Summary(values.name, values.type, None, None)
    found = histogram(array, statistics, min(max(bins, 1), _MOST_BINS))
    bars = None if found is None else Histogram(*found)
    return Summary(values.name, values.type, statistic_numbers(statistics), bars)


def statistics_of(array: NDArray[Any]) -> Statistics | None:
    """Statistics of ``array``; None for a type without an order (complex)."""
    return kernels.summarize_array(array) if array.dtype.kind in "biuf" else None


def tabulate(values: Values, index: str = "") -> Table:
    """The elements at ``index``, or the first of them, as many as a table may have."""
    plane = parse_plane(index, values.array.shape).clipped(MOST_CELLS, MOST_COLUMNS)
    return _table(values.name, values.type, plane, cells_of(plane.of(values.array)))


def _table(name: TensorName, type_: TensorType, plane: Plane, cells: tuple[Number, ...]) -> Table:
    rows, columns = plane.row_range, plane.column_range
    return Table(
        name,
        type_,
        plane.index,
        len(rows),
        len(columns),
        rows.start,
        columns.start,
        rows.step,
        columns.step,
        cells,
    )


def cells_of(plane: NDArray[Any]) -> tuple[Number, ...]:
    """Elements row by row; booleans as 0 and 1, complex numbers as text."""
    flat = plane.reshape(-1)
    if flat.dtype.kind == "b":
        flat = flat.astype(np.uint8)
    if flat.dtype.kind == "c":
        return tuple(str(value).strip("()") for value in flat.tolist())
    found: list[Number] = flat.tolist()
    if flat.dtype.kind == "f":
        for place in np.flatnonzero(~np.isfinite(flat)).tolist():
            found[place] = to_wire(float(found[place]))
    elif flat.dtype.itemsize == 8:
        found = [to_wire(int(value)) for value in found]
    return tuple(found)


def draw_heat(
    values: Values, index: str = "", rows: int = 256, columns: int = 256, by: CellBy = "mean"
) -> Heat:
    """The plane at ``index`` in at most ``rows`` x ``columns`` cells; magnitudes of complex."""
    plane = parse_plane(index, values.array.shape)
    elements = plane.of(values.array)
    picture = heat_of(
        elements.shape,
        lambda first, last: as_floats(elements[first:last]),
        *_size(rows, columns),
        by,
    )
    return Heat(values.name, values.type, plane.index, *picture)


def _size(rows: int, columns: int) -> tuple[int, int]:
    return min(max(rows, 1), _MOST_HEAT), min(max(columns, 1), _MOST_HEAT)


def compare(a: Values, b: Values, index: str = "", tolerance: float = 0.0) -> Compared:
    """``a`` minus ``b``: tables and picture over the plane at ``index``, distances over the whole.

    ``boundary`` is ``tolerance`` times the largest finite difference of the whole; differences up
    to it are shown as 0. Differences of non-finite elements follow IEEE 754 (NaN, Inf); those of
    complex numbers are magnitudes.
    """
    if a.array.shape != b.array.shape:
        raise UsageError(
            f"tensors must have the same shape to be compared element by element (got "
            f"{list(a.array.shape)} and {list(b.array.shape)})",
            slug="tensor-compare",
        )
    plane = parse_plane(index, a.array.shape)
    distances = distances_of(a, b)
    boundary = _boundary(distances, tolerance)
    shown = plane.clipped(MOST_CELLS, MOST_COLUMNS)
    cells_a, cells_b = shown.of(a.array), shown.of(b.array)
    difference = _differences(cells_a, cells_b, boundary)
    all_a, all_b = plane.of(a.array), plane.of(b.array)
    picture = heat_of(
        all_a.shape,
        lambda first, last: _float_differences(all_a[first:last], all_b[first:last], boundary),
        *_size(256, 256),
        "largest",
    )
    type_ = TensorType("float64", a.array.shape)
    return Compared(
        _table(a.name, a.type, shown, cells_of(cells_a)),
        _table(b.name, b.type, shown, cells_of(cells_b)),
        _table(a.name, type_, shown, difference),
        Heat(a.name, type_, plane.index, *picture),
        distances,
        boundary,
    )


def _boundary(distances: DistanceNumbers, tolerance: float) -> float:
    largest = distances.max_abs_error
    if isinstance(largest, str) or not 0 < tolerance < np.inf:
        return 0.0
    return float(largest) * tolerance


def _differences(a: NDArray[Any], b: NDArray[Any], boundary: float) -> tuple[Number, ...]:
    """Exact for integers of any size; else in float64."""
    if a.dtype.kind in "biu" and b.dtype.kind in "biu":
        pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
        exact = (int(left) - int(right) for left, right in pairs)
        return tuple(to_wire(value if abs(value) > boundary else 0) for value in exact)
    return cells_of(_float_differences(a, b, boundary))


def _float_differences(a: NDArray[Any], b: NDArray[Any], boundary: float) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", over="ignore"):
        if "c" in (a.dtype.kind, b.dtype.kind):
            difference = np.abs(a.astype(np.complex128) - b.astype(np.complex128))
        else:
            difference = a.astype(np.float64) - b.astype(np.float64)
        difference[np.abs(difference) <= boundary] = 0.0
    return difference


def distances_of(a: Values, b: Values) -> DistanceNumbers:
    """Over the whole of both; complex tensors by their real and imaginary parts.

    ``max_ulp`` counts in the type the tensors had; NaN where they differ or it is not known.
    """
    array_a, array_b = _reals(a.array), _reals(b.array)
    if array_a.shape != array_b.shape:  # One of them is complex.
        wide = np.result_type(a.array, b.array)
        array_a, array_b = _reals(a.array.astype(wide)), _reals(b.array.astype(wide))
    try:
        found = kernels.compare_arrays(array_a, array_b)
    except SondeError as error:
        raise UsageError(error.message, slug="tensor-compare") from None
    ulp = found.max_ulp
    if a.dtype != b.dtype:
        ulp = np.nan
    elif a.dtype == "bfloat16":
        ulp = ulp / _BFLOAT16_ULPS
    elif a.dtype != array_a.dtype.name:
        ulp = np.nan
    return distance_numbers(found, max_ulp=ulp)


def _reals(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind != "c":
        return array
    flat = np.ascontiguousarray(array)
    return flat.view(flat.real.dtype).reshape(*flat.shape, 2)


def npy_chunks(values: Values, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The tensor as the bytes of an ``.npy`` file, piece by piece, without a second copy of it."""
    yield npy_header(values.array.dtype.name, values.array.shape)
    data = np.ascontiguousarray(values.array).reshape(-1).view(np.uint8)
    for start in range(0, data.size, chunk_bytes):
        yield data[start : start + chunk_bytes].tobytes()
