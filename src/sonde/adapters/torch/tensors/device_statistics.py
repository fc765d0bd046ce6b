"""Statistics with torch ops on the tensor's own device, fetched once per step.

The same numbers as the host kernel's rows (``sonde.kernels``), without a synchronisation per
tensor: the results stay on the device until ``gather`` transfers all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sonde.adapters.torch import private
from sonde.core.statistics import (
    ABS_MEAN,
    AVG,
    COUNT,
    DTYPE,
    FINITE_MAX,
    FINITE_MIN,
    L2NORM,
    MAX,
    MIN,
    NAN_COUNT,
    NEGATIVE_COUNT,
    NEGATIVE_INF_COUNT,
    POSITIVE_COUNT,
    POSITIVE_INF_COUNT,
    ROW_COLUMNS,
    STD,
    ZERO_COUNT,
)

_EXACT = {torch.int64: "int64", torch.uint64: "uint64"}
_WIDENED = (torch.bool, torch.uint16, torch.uint32)
_SIGN = -(1 << 63)
_NO_DOUBLE = ("mps",)
"""Devices without float64: everything there is in float32."""


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """Some columns of a raw row: ``values`` on the device, in the order of ``columns``.

    ``exact``: the host type of the integers whose 64 bits ``FINITE_MAX`` and ``FINITE_MIN`` hold.
    """

    columns: tuple[int, ...]
    values: torch.Tensor | None
    count: int
    code: int
    exact: str | None


def device_row(
    tensor: torch.Tensor, code: int, *, columns: Collection[int], high_precision: bool
) -> DeviceRow:
    """The ``columns`` of the raw row of ``tensor``, whose kernel code is ``code``.

    Sums are in float64 (float32 where the device lacks it) if ``high_precision`` or the elements
    are integers; else in the tensor's own dtype, float8 in float32: that takes less memory, is less
    exact and may overflow. Otherwise NaN, Inf, empty and the rest are as in the host kernel.
    """
    exact = _EXACT.get(tensor.dtype)
    count = tensor.numel()
    if not count:
        return DeviceRow((), None, 0, code, exact)
    if tensor.dtype in _WIDENED:
        tensor = tensor.to(torch.int64)
    elif tensor.is_floating_point() and tensor.element_size() == 1:
        tensor = tensor.float()
    wide = torch.float32 if tensor.device.type in _NO_DOUBLE else torch.float64
    summed = tensor.to(wide) if high_precision or not tensor.is_floating_point() else tensor
    found = _Columns(tensor, set(columns), wide, summed, has_bits=exact is not None).compute()
    if not found:
        return DeviceRow((), None, count, code, exact)
    values = torch.stack([value.to(wide) for value in found.values()])
    return DeviceRow(tuple(found), values, count, code, exact)


@dataclass(slots=True, eq=False)
class _Columns:
    """The columns of one tensor that is not empty; only what ``wanted`` needs is computed.

    ``wide`` is the dtype of results, ``summed`` the tensor in the dtype of sums. ``has_bits``: the
    finite extremes are the bits of integers.
    """

    tensor: torch.Tensor
    wanted: set[int]
    wide: torch.dtype
    summed: torch.Tensor
    has_bits: bool

    @property
    def is_float(self) -> bool:
        return self.tensor.is_floating_point()

    def compute(self) -> dict[int, torch.Tensor]:
        tensor = self.tensor
        found: dict[int, torch.Tensor] = {}
        if self.wanted & {ZERO_COUNT, NEGATIVE_COUNT, POSITIVE_COUNT}:
            found[ZERO_COUNT] = (tensor == 0).sum()
            is_signed = tensor.dtype.is_signed
            found[POSITIVE_COUNT] = (tensor > 0 if is_signed else tensor != 0).sum()
            found[NEGATIVE_COUNT] = (tensor < 0).sum() if is_signed else _zero(tensor)
        if self.wanted & {NAN_COUNT, POSITIVE_INF_COUNT, NEGATIVE_INF_COUNT}:
            for column, test in (
                (NAN_COUNT, torch.isnan),
                (POSITIVE_INF_COUNT, torch.isposinf),
                (NEGATIVE_INF_COUNT, torch.isneginf),
            ):
                found[column] = test(tensor).sum() if self.is_float else _zero(tensor)
        found.update(self._extremes())
        found.update(self._sums(found[MAX], found[MIN]))
        return {column: value for column, value in found.items() if self._is_kept(column)}

    def _is_kept(self, column: int) -> bool:
        # The exact extremes of integers are in the finite columns.
        return column in self.wanted or (self.has_bits and column in (FINITE_MAX, FINITE_MIN))

    def _extremes(self) -> dict[int, torch.Tensor]:
        tensor = self.tensor
        if not self.is_float:
            largest, smallest = _extreme(tensor, "amax"), _extreme(tensor, "amin")
            finite = largest, smallest
            if self.has_bits and self.wide is torch.float64:
                finite = _bits(largest), _bits(smallest)
            return {MAX: largest, MIN: smallest, FINITE_MAX: finite[0], FINITE_MIN: finite[1]}
        # Adding 0.0 makes -0.0 positive, as in the host kernel.
        found = {MAX: tensor.amax() + 0.0, MIN: tensor.amin() + 0.0}
        if self.wanted & {FINITE_MAX, FINITE_MIN}:
            is_finite = torch.isfinite(tensor)
            is_any = is_finite.any()
            nothing = tensor.new_full((), float("nan"))
            high = torch.where(is_finite, tensor, float("-inf")).amax() + 0.0
            low = torch.where(is_finite, tensor, float("inf")).amin() + 0.0
            found[FINITE_MAX] = torch.where(is_any, high, nothing)
            found[FINITE_MIN] = torch.where(is_any, low, nothing)
        return found

    def _sums(self, largest: torch.Tensor, smallest: torch.Tensor) -> dict[int, torch.Tensor]:
        if not self.wanted & {AVG, L2NORM, STD, ABS_MEAN}:
            return {}
        summed, scale = self.summed, None
        if self.tensor.dtype is torch.float64:
            # Squares of a float64 may leave its range.
            scale = _power_of_two(summed)
            summed = summed / scale
        found: dict[int, torch.Tensor] = {}
        if L2NORM in self.wanted:
            found[L2NORM] = torch.linalg.vector_norm(summed)
        if ABS_MEAN in self.wanted:
            found[ABS_MEAN] = summed.abs().mean()
        if self.wanted & {AVG, STD}:
            mean = summed.mean()
            found[AVG] = mean
            if STD in self.wanted:
                found[STD] = (summed - mean).square().mean().sqrt()
        if scale is not None:
            found = {column: value * scale for column, value in found.items()}
        if AVG in found:
            # If all elements are equal, the mean is exact and the deviation 0.
            is_equal = (largest == smallest) & torch.isfinite(found[AVG])
            value = largest.to(found[AVG].dtype)
            found[AVG] = torch.where(is_equal, value, found[AVG] + 0.0)
            if STD in found:
                found[STD] = torch.where(is_equal, torch.zeros_like(value), found[STD])
        return found


def _power_of_two(tensor: torch.Tensor) -> torch.Tensor:
    """The power of two of the largest magnitude; 1 if that is zero or not finite."""
    largest = tensor.abs().amax()
    mantissa, _ = torch.frexp(largest)
    size = largest * 0.5 / mantissa
    return torch.where(torch.isfinite(size) & (size > 0), size, torch.ones_like(size))


def _zero(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros((), dtype=torch.int64, device=tensor.device)


def _extreme(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """``amax`` or ``amin``, which torch lacks for uint64."""
    if tensor.dtype is not torch.uint64:
        return getattr(tensor, name)()  # type: ignore[no-any-return]
    ordered = tensor.view(torch.int64).bitwise_xor(_SIGN)
    return getattr(ordered, name)().bitwise_xor(_SIGN).view(torch.uint64)  # type: ignore[no-any-return]


def _bits(value: torch.Tensor) -> torch.Tensor:
    """The 64 bits of an integer stored as a float64, as in the host kernel's rows."""
    return value.contiguous().view(torch.float64)


def gather(rows: Sequence[DeviceRow]) -> NDArray[np.float64]:
    """All rows on the host, in one transfer per device; what was not computed is NaN."""
    found = np.full((len(rows), ROW_COLUMNS), np.nan)
    by_device: dict[torch.device, list[tuple[int, DeviceRow, torch.Tensor]]] = {}
    for position, row in enumerate(rows):
        found[position, COUNT] = row.count
        found[position, DTYPE] = row.code
        if row.values is not None:
            by_device.setdefault(row.values.device, []).append((position, row, row.values))
        elif not row.count:
            found[position, :MAX] = 0
            found[position, L2NORM] = 0.0
    for group in by_device.values():
        with private.unobserved():
            block = torch.cat([values for _, _, values in group]).cpu()
            numbers = private.to_numpy(block.to(torch.float64))
        start = 0
        for position, row, _ in group:
            end = start + len(row.columns)
            found[position, row.columns] = numbers[start:end]
            start = end
            if row.exact is not None and block.dtype is not torch.float64:
                _exact_bits(found[position], row.exact)
    return found


def _exact_bits(row: NDArray[np.float64], integer: str) -> None:
    """The finite extremes of integers as bits, from a device that could not give those."""
    extremes = row[[FINITE_MAX, FINITE_MIN]].astype(integer)
    row[[FINITE_MAX, FINITE_MIN]] = extremes.view(np.float64)
