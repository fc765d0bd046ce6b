"""Numbers for people."""

from __future__ import annotations

import os

from sonde.profile.document import Place

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def duration(seconds: float) -> str:
    """Three digits and a unit that fits: ``1.20 s``, ``31.4 ms``, ``850 µs``."""
    for limit, factor, unit in ((1.0, 1.0, "s"), (1e-3, 1e3, "ms")):
        if abs(seconds) >= limit * 0.9995:
            return f"{_three_digits(seconds * factor)} {unit}"
    return f"{_three_digits(seconds * 1e6)} µs"


def size(nbytes: float) -> str:
    value = float(nbytes)
    for unit in _UNITS:
        if abs(value) < 1024 or unit == _UNITS[-1]:
            return f"{_three_digits(value)} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes everything")


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if abs(share) >= 0.0995 else f"{100 * share:.1f} %"


def place(where: Place | None) -> str:
    """``train.py:12``, relative to the current directory where the file is below it."""
    if where is None:
        return ""
    file = where.file
    here = os.getcwd() + os.sep
    return f"{file.removeprefix(here)}:{where.line}"


def _three_digits(value: float) -> str:
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"
