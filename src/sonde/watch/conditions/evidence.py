"""Measures the evidence that conditions need: one pass over a tensor per kind of number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from sonde import kernels
from sonde.core.errors import SondeError
from sonde.core.statistics import Statistics
from sonde.watch.conditions.contract import Bounds, Evidence, Needs, count_within

_ANY_TOLERANCE: Final = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a tensor's elements; strides in elements, None if contiguous.

    ``owner`` keeps the memory alive. ``dtype`` is named as in ``kernels.DTYPES``. ``zeros``: the
    number of further elements, which a sparse tensor does not store because they are zero.
    """

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    owner: object = None
    zeros: int = 0

    def summarize(self) -> Statistics:
        """Of all elements; SondeError for a type without statistics."""
        found = kernels.summarize(self.address, self.dtype, self.shape, self.strides)
        return found.with_zeros(self.zeros) if self.zeros else found


@dataclass(frozen=True, slots=True)
class PreviousValue:
    """A tensor one step before: its values, or only its statistics, or why there are none."""

    memory: Memory | None = None
    statistics: Statistics | None = None
    missing: str = "there is no value of the step before"


def memory_of(array: NDArray[Any], dtype: str | None = None) -> Memory:
    """The memory of a numpy array, which must be aligned and in native byte order; ``dtype`` if
    numpy lacks the type (bfloat16 in uint16, for example)."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return Memory(array.ctypes.data, dtype or array.dtype.name, array.shape, strides, array)


def measure(
    memory: Memory,
    needs: Needs,
    *,
    previous: PreviousValue | None = None,
    statistics: Statistics | None = None,
    inputs_finite: bool | None = None,
    step: int = 0,
) -> Evidence:
    """Measure what ``needs`` contains. ``statistics`` are those of the tensor, if known already.

    Elements are compared with bounds and with their previous values only if all are finite:
    otherwise no condition uses the result.
    """
    before = previous or PreviousValue()
    try:
        known = statistics or memory.summarize()
    except SondeError as error:
        return Evidence(missing=str(error), inputs_finite=inputs_finite, step=step)
    previous_statistics, no_previous = _previous(memory, needs, before)
    finite = not known.non_finite_count and known.count > 0
    between = {bounds: _within(memory, known, bounds) for bounds in needs.between if finite}
    apart, moved_sum = {}, None
    if finite and needs.previous and before.memory is not None and previous_statistics is not None:
        for tolerance in sorted(needs.apart) or [_ANY_TOLERANCE]:
            moved_sum, apart[tolerance] = _change(memory, before.memory, tolerance)
    return Evidence(
        statistics=known,
        between=between,
        apart=apart,
        moved_sum=moved_sum,
        previous=previous_statistics,
        no_previous=no_previous,
        inputs_finite=inputs_finite,
        step=step,
    )


def _within(memory: Memory, statistics: Statistics, bounds: Bounds) -> int:
    known = count_within(statistics, bounds)
    if known is not None:
        return known
    code = kernels.dtype_code(memory.dtype)
    found = kernels.count_between(memory.address, code, memory.shape, memory.strides, *bounds)
    return found + (memory.zeros if bounds[0] <= 0 <= bounds[1] else 0)


def _previous(memory: Memory, needs: Needs, value: PreviousValue) -> tuple[Statistics | None, str]:
    """The statistics of the previous value, or why it cannot be compared with."""
    if not needs.previous and not needs.previous_statistics:
        return None, value.missing
    before = value.memory
    if needs.previous:
        if before is None:
            return None, value.missing
        if memory.zeros or before.zeros:
            return None, "sparse tensors are not compared with the step before"
        if before.shape != memory.shape:
            return None, f"the step before it had the shape {list(before.shape)}"
    if value.statistics is not None or before is None:
        return value.statistics, value.missing
    try:
        found = before.summarize()
    except SondeError as error:
        return None, str(error)
    return found, ""


def _change(now: Memory, before: Memory, tolerance: tuple[float, float]) -> tuple[float, int]:
    return kernels.tally_change(
        now.address,
        kernels.dtype_code(now.dtype),
        now.strides,
        before.address,
        kernels.dtype_code(before.dtype),
        before.strides,
        now.shape,
        *tolerance,
    )
