"""Reads pairs of tensors and measures how they differ, on all cores.

Each thread reads, compares and drops one pair at a time; large files are mapped, not read.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import islice
from math import inf, isfinite, nan, prod, sqrt
from typing import Any, Literal

from numpy.typing import NDArray

from sonde import kernels
from sonde.compare.runs.layouts import lay_out
from sonde.compare.runs.merging.record import MergedRecord, values_of_both
from sonde.compare.runs.result import ComparedTensor, TensorPair
from sonde.core.errors import DumpError, SondeError
from sonde.core.keys import Io
from sonde.dump.tensor_record import TensorRecord
from sonde.kernels.distances import Distances

_AHEAD = 4
"""Pairs queued for each thread. A queued pair holds names only; the thread reads the values."""


_SINGLE_ROUNDING = 2.0**-18
"""The relative rounding of a sum of many elements in single precision."""
_NON_FINITE = {"nan": ("nan count",), "inf": ("positive inf count", "negative inf count")}


@dataclass(frozen=True, slots=True)
class MeasureTask:
    """Two tensors to compare; ``parameter_*`` are set if they are values of a parameter.

    ``is_weight``: other orders of the axes are tried if the values differ clearly. ``perturbed``:
    b of a run whose weights were changed in their last bits.
    """

    a: TensorRecord
    b: TensorRecord
    parameter_a: str | None = None
    parameter_b: str | None = None
    is_weight: bool = False
    perturbed: TensorRecord | None = None

    def with_perturbed(self, records: Mapping[tuple[str, Io, int], TensorRecord]) -> MeasureTask:
        if not records or isinstance(self.b, MergedRecord):
            return self
        key = self.b.key
        return replace(self, perturbed=records.get((key.op, key.io, key.slot)))


@dataclass(frozen=True, slots=True)
class Measured:
    """A pair with the absolute norms and errors that `fault` needs. ``perturbed_error``: the
    absolute L2 distance of b from itself with weights changed in their last bits; 0 if unknown.

    ``l2_error`` and ``max_abs_error`` are NaN if unknown. By statistics, ``max_abs_error`` is the
    largest difference of the extremes.
    """

    pair: TensorPair
    l2_error: float
    norm: float
    count: int
    max_abs_error: float
    perturbed_error: float = 0.0

    @property
    def error(self) -> float:
        return self.pair.error


def measure_all(
    tasks: Sequence[MeasureTask], *, threads: int | None
) -> Generator[Measured, None, None]:
    """Measure in several threads; the results are in order."""
    workers = threads or os.cpu_count() or 1
    with ThreadPoolExecutor(workers, "sonde-compare") as pool:
        remaining = iter(tasks)
        waiting = deque(pool.submit(measure, task) for task in islice(remaining, workers * _AHEAD))
        try:
            while waiting:
                measured = waiting.popleft().result()
                waiting.extend(pool.submit(measure, task) for task in islice(remaining, 1))
                yield measured
        finally:
            for future in waiting:
                future.cancel()


def measure(task: MeasureTask) -> Measured:
    """How two tensors differ. If they cannot be compared, the result has the reason."""
    try:
        if task.a.path is not None and task.b.path is not None:
            return _by_values(task)
        return _by_statistics(task)
    except DumpError as error:
        return _problem(task, error.message, "other" if error.slug == "no-values" else "damaged")
    except SondeError as error:
        return _problem(task, error.message)


def _names(task: MeasureTask) -> tuple[ComparedTensor, ComparedTensor]:
    return _name(task.a, task.parameter_a), _name(task.b, task.parameter_b)


def _name(record: TensorRecord, parameter: str | None) -> ComparedTensor:
    key = record.key
    try:
        dtype, shape = record.dtype, record.shape
    except DumpError:
        dtype, shape = "unknown", ()
    return ComparedTensor(key.op, key.io, key.slot, dtype, shape, parameter)


def _problem(
    task: MeasureTask, text: str, kind: Literal["shapes", "damaged", "other"] = "other"
) -> Measured:
    a, b = _names(task)
    pair = TensorPair(a, b, nan, None, "values", None, text, kind)
    return Measured(pair, nan, nan, 0, nan)


def _different_shapes(task: MeasureTask) -> Measured:
    a, b = _names(task)
    return _problem(task, f"shapes {list(a.shape)} and {list(b.shape)} do not agree", "shapes")


def _by_values(task: MeasureTask) -> Measured:
    a, b = _names(task)
    left, right, rules = values_of_both(task.a, task.b)
    laid = lay_out(left, right, is_weight=task.is_weight)
    if laid is None:
        return _different_shapes(task)
    values, layout = laid
    words = [*map(str, dict.fromkeys(rules)), layout]
    layout = ", ".join(filter(None, words)) or None
    found = _with_ulp(kernels.compare_arrays(values, right), a.dtype, b.dtype)
    pair = TensorPair(a, b, _error(found), found, "values", layout)
    grown = _perturbed_error(task, right)
    return Measured(pair, found.l2_error, found.norm_b, found.count, found.max_abs_error, grown)


def _perturbed_error(task: MeasureTask, values: NDArray[Any]) -> float:
    if task.perturbed is None or task.perturbed.path is None:
        return 0.0
    try:
        other = task.perturbed.numpy()
    except DumpError:
        return 0.0
    if other.shape != values.shape:
        return 0.0
    found = kernels.compare_arrays(other, values)
    return found.l2_error if isfinite(found.l2_error) else 0.0


def _error(found: Distances) -> float:
    if found.non_finite_disagreed:
        return inf
    return 0.0 if found.is_equal else found.relative_l2


def _with_ulp(found: Distances, dtype_a: str, dtype_b: str) -> Distances:
    """The ULP of the dtypes in the run: bfloat16 is stored as float32, with 2^16 times the ULP."""
    is_known = dtype_a == dtype_b and dtype_a in ("float16", "bfloat16", "float32", "float64")
    scale = 65536 if dtype_a == "bfloat16" else 1
    return replace(found, max_ulp=found.max_ulp / scale if is_known else nan)


def _by_statistics(task: MeasureTask) -> Measured:
    a, b = _names(task)
    if a.shape and b.shape and sorted(_large(a.shape)) != sorted(_large(b.shape)):
        return _different_shapes(task)
    rows = (task.a.row, task.b.row)
    left, right = _statistics(task.a), _statistics(task.b)
    both = [name for name in ("max", "min", "avg", "l2norm") if name in left and name in right]
    count = int(left.get("count", 1))
    if not both:
        return _problem(task, "the statistics of the two sides have nothing in common")
    if any(left[name] != right[name] for name in ("nan", "inf") if name in left and name in right):
        pair = TensorPair(a, b, inf, None, "statistics")
        return Measured(pair, nan, nan, count, nan)
    error, largest = _statistic_error(left, right, both, count)
    if error < _SINGLE_ROUNDING and any(row is not None and row.is_single for row in rows):
        error = 0.0
    norm = right.get("l2norm", largest * sqrt(count))
    pair = TensorPair(a, b, error, None, "statistics")
    return Measured(pair, error * norm, norm, count, error * largest)


def _large(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]


def _statistic_error(
    left: dict[str, float], right: dict[str, float], both: Sequence[str], count: int
) -> tuple[float, float]:
    """The largest relative difference, and the largest magnitude.

    A difference of means is divided by the size of the elements, not by the mean: the mean of
    many numbers that cancel consists of rounding errors only.
    """
    largest = max(abs(side[name]) for side in (left, right) for name in both if name != "l2norm")
    size = right["l2norm"] / sqrt(count) if "l2norm" in both and count else largest
    scales = {"max": largest, "min": largest, "avg": size, "l2norm": right.get("l2norm", 0.0)}
    error = 0.0
    for name in both:
        x, y = left[name], right[name]
        if isfinite(x) != isfinite(y):
            error = inf
        elif x != y and isfinite(x):
            error = max(error, abs(x - y) / scales[name] if scales[name] else inf)
    return error, largest


def _statistics(record: TensorRecord) -> dict[str, float]:
    """The numbers of a record: those of its row, or computed from its values."""
    if record.row is None:
        computed = asdict(record.statistics())
        values = {name.replace("_", " "): number for name, number in computed.items()}
        count = computed["count"]
    else:
        values, count = dict(record.row.values), prod(record.row.shape)
    found: dict[str, float] = {
        name: float(values[name]) for name in ("max", "min", "avg", "l2norm") if name in values
    }
    for label, names in _NON_FINITE.items():
        counts = [float(values[name]) for name in names if name in values]
        if counts:
            found[label] = sum(counts)
    return {**found, "count": float(count)}
