"""Reading pairs of tensors and computing how they differ, on all cores.

A pair is read, compared and dropped, so the memory in use is that of as many pairs as there are
threads; large files are mapped, not read.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf, isfinite, isnan, nan, sqrt
from typing import Literal

from sonde import kernels
from sonde.compare.runs.layouts import lay_out
from sonde.compare.runs.result import ComparedTensor, TensorPair
from sonde.core.errors import DumpError, SondeError
from sonde.core.statistics import Statistics
from sonde.dump.tensor_record import TensorRecord
from sonde.kernels.distances import Distances

_AHEAD = 4
"""Pairs queued for each thread: names only, their values are read by the thread."""


@dataclass(frozen=True, slots=True)
class MeasureTask:
    """Two tensors to compare; ``parameter_*`` names them where they are a parameter's value."""

    a: TensorRecord
    b: TensorRecord
    parameter_a: str | None = None
    parameter_b: str | None = None
    is_weight: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """A pair with the absolute norms and errors that `fault` needs.

    ``l2_error`` and ``max_abs_error`` are NaN where they are not known (by statistics the latter
    is the largest difference of the extremes).
    """

    pair: TensorPair
    l2_error: float
    norm: float
    count: int
    max_abs_error: float
    nbytes: int

    @property
    def error(self) -> float:
        return self.pair.error


def measure_all(
    tasks: Sequence[MeasureTask], *, threads: int | None, done: Callable[[int], None]
) -> Iterator[Measured]:
    """Measure in order; ``done`` is told the bytes of each pair."""
    workers = threads or os.cpu_count() or 1
    if workers == 1 or len(tasks) < 2:
        for task in tasks:
            yield _told(measure(task), done)
        return
    with ThreadPoolExecutor(workers, "sonde-compare") as pool:
        waiting: deque[Future[Measured]] = deque()
        try:
            for task in tasks:
                waiting.append(pool.submit(measure, task))
                if len(waiting) > workers * _AHEAD:
                    yield _told(waiting.popleft().result(), done)
            while waiting:
                yield _told(waiting.popleft().result(), done)
        finally:
            for future in waiting:
                future.cancel()


def _told(measured: Measured, done: Callable[[int], None]) -> Measured:
    done(measured.nbytes)
    return measured


def measure(task: MeasureTask) -> Measured:
    """How two tensors differ; what cannot be compared says why instead of raising."""
    try:
        if task.a.path is not None and task.b.path is not None:
            return _by_values(task)
        return _by_statistics(task)
    except DumpError as error:
        return _problem(task, error.message, is_damaged=error.slug != "no-values")
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


def _problem(task: MeasureTask, text: str, *, is_damaged: bool = False) -> Measured:
    a, b = _names(task)
    pair = TensorPair(a, b, nan, None, "values", None, text, is_damaged)
    return Measured(pair, nan, nan, 0, nan, 0)


def _by_values(task: MeasureTask) -> Measured:
    a, b = _names(task)
    left, right = task.a.numpy(), task.b.numpy()
    laid = lay_out(left, right, is_weight=task.is_weight)
    if laid is None:
        return _problem(task, f"shapes {list(a.shape)} and {list(b.shape)} do not agree")
    values, layout = laid
    found = _with_ulp(kernels.compare_arrays(values, right), a.dtype, b.dtype)
    pair = TensorPair(a, b, _error(found), found, "values", layout)
    nbytes = left.nbytes + right.nbytes
    return Measured(pair, found.l2_error, found.norm_b, found.count, found.max_abs_error, nbytes)


def _error(found: Distances) -> float:
    if found.non_finite_disagreed:
        return inf
    if found.is_equal:
        return 0.0
    return found.relative_l2


def _with_ulp(found: Distances, dtype_a: str, dtype_b: str) -> Distances:
    """ULP of the dtypes the tensors had: bfloat16 is stored in float32, 2^16 times as fine."""
    if dtype_a != dtype_b or isnan(found.max_ulp):
        return replace(found, max_ulp=nan) if not isnan(found.max_ulp) else found
    if dtype_a == "bfloat16":
        return replace(found, max_ulp=found.max_ulp / 65536)
    return found if dtype_a in ("float16", "float32", "float64") else replace(found, max_ulp=nan)


def _by_statistics(task: MeasureTask) -> Measured:
    a, b = _names(task)
    if a.shape and b.shape and sorted(_large(a.shape)) != sorted(_large(b.shape)):
        return _problem(task, f"shapes {list(a.shape)} and {list(b.shape)} do not agree")
    left, right = _statistics(task.a), _statistics(task.b)
    both = [name for name in ("max", "min", "avg", "l2norm") if name in left and name in right]
    count = int(left.get("count", 1))
    if not both:
        return _problem(task, "the statistics of the two sides have nothing in common")
    by: Literal["statistics"] = "statistics"
    if any(left.get(name) != right.get(name) for name in ("nan", "inf") if name in left):
        pair = TensorPair(a, b, inf, None, by)
        return Measured(pair, nan, nan, count, nan, 0)
    error, largest = _statistic_error(left, right, both, count)
    norm = right.get("l2norm", largest * sqrt(count))
    pair = TensorPair(a, b, error, None, by)
    return Measured(pair, error * norm, norm, count, error * largest, 0)


def _large(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]


def _statistic_error(
    left: dict[str, float], right: dict[str, float], both: Sequence[str], count: int
) -> tuple[float, float]:
    """The largest relative difference, and the largest magnitude.

    A mean is compared with the size of the elements, not with itself: the mean of many numbers
    that cancel is rounding alone.
    """
    largest = max(abs(side[name]) for side in (left, right) for name in both if name != "l2norm")
    size = right["l2norm"] / sqrt(count) if "l2norm" in both and count else largest
    scales = {"max": largest, "min": largest, "avg": size, "l2norm": right.get("l2norm", 0.0)}
    error = 0.0
    for name in both:
        x, y = left[name], right[name]
        if x != y and isfinite(x) and isfinite(y):
            error = max(error, abs(x - y) / scales[name] if scales[name] else inf)
    return error, largest


def _statistics(record: TensorRecord) -> dict[str, float]:
    """The numbers of a record: those of its row, or computed from its values."""
    if record.row is None:
        return _from_values(record.statistics())
    values = record.row.values
    found: dict[str, float] = {
        name: float(values[name]) for name in ("max", "min", "avg", "l2norm") if name in values
    }
    if "nan count" in values:
        found["nan"] = float(values["nan count"])
    infinities = [
        values[name] for name in ("positive inf count", "negative inf count") if name in values
    ]
    if infinities:
        found["inf"] = sum(float(each) for each in infinities)
    size = 1
    for length in record.row.shape:
        size *= length
    found["count"] = float(size)
    return found


def _from_values(found: Statistics) -> dict[str, float]:
    return {
        "max": float(found.max),
        "min": float(found.min),
        "avg": found.avg,
        "l2norm": found.l2norm,
        "nan": float(found.nan_count),
        "inf": float(found.positive_inf_count + found.negative_inf_count),
        "count": float(found.count),
    }
