"""Element types numpy does not have, and how their bits become numbers it has, without rounding."""

from __future__ import annotations

from math import inf, ldexp, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray


def widen_bfloat16(bits: NDArray[Any]) -> NDArray[np.float32]:
    """The values of bfloat16 bits (uint16): the upper half of a float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _decode(bits: int, *, mantissa_bits: int, bias: int, finite: bool, one_zero: bool) -> float:
    """One value of an eight-bit type with sign, exponent and mantissa.

    ``one_zero`` (the "uz" types): no negative zero, its bits are the only NaN. ``finite``: no
    infinity; without ``one_zero`` all ones is NaN.
    """
    sign = -1.0 if bits & 0x80 else 1.0
    magnitude = bits & 0x7F
    exponent, mantissa = divmod(magnitude, 1 << mantissa_bits)
    if one_zero and bits == 0x80:
        return nan
    if not one_zero:
        if finite and magnitude == 0x7F:
            return nan
        if not finite and exponent == (0x7F >> mantissa_bits):
            return nan if mantissa else sign * inf
    if exponent == 0:
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)


def _table(mantissa_bits: int, bias: int, *, finite: bool, one_zero: bool) -> NDArray[np.float32]:
    return np.array(
        [
            _decode(bits, mantissa_bits=mantissa_bits, bias=bias, finite=finite, one_zero=one_zero)
            for bits in range(256)
        ],
        np.float32,
    )


EIGHTH_TABLES: dict[str, NDArray[np.float32]] = {
    "float8_e4m3fn": _table(3, 7, finite=True, one_zero=False),
    "float8_e4m3fnuz": _table(3, 8, finite=True, one_zero=True),
    "float8_e5m2": _table(2, 15, finite=False, one_zero=False),
    "float8_e5m2fnuz": _table(2, 16, finite=True, one_zero=True),
    # A bare power of two, no sign, no zero; all ones is NaN.
    "float8_e8m0fnu": np.array([ldexp(1.0, bits - 127) for bits in range(255)] + [nan], np.float32),
}
"""The 256 values of each eight-bit floating type."""

_STORAGE = {"bool": "uint8", "bfloat16": "uint16", **dict.fromkeys(EIGHTH_TABLES, "uint8")}


def storage_of(dtype: str) -> str:
    """The numpy type of the bits of ``dtype``."""
    return _STORAGE.get(dtype, dtype)


def numbers(raw: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The elements in ``raw``, an array of ``storage_of(dtype)``, as numbers numpy has."""
    if dtype == "bool":
        truths: NDArray[np.bool_] = raw != 0
        return truths
    if dtype == "bfloat16":
        return widen_bfloat16(raw)
    table = EIGHTH_TABLES.get(dtype)
    if table is None:
        return raw
    found: NDArray[np.float32] = table[raw]
    return found
