"""Numbers as text for people, and as values that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

_DECIMAL_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_BINARY_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def number_text(value: object, digits: int = 4, *, missing: str = "") -> str:
    """A float with so many significant digits, anything else in full; ``missing`` for None."""
    if value is None:
        return missing
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def scientific(value: float) -> str:
    """``1.23e-04``; ``0``, ``nan`` and ``inf`` as they are."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    return f"{value:.2e}"


def percent(share: float) -> str:
    """``12 %``; below ten percent with one decimal."""
    return f"{100 * share:.0f} %" if abs(share) >= 0.0995 else f"{100 * share:.1f} %"


def count_text(number: int, noun: str) -> str:
    """``1 op``, ``1,200 ops``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def size_text(nbytes: int) -> str:
    """``12.4 MB``: powers of 1000, three digits."""
    size, unit = float(nbytes), "B"
    for unit in _DECIMAL_UNITS:
        if size < 999.5 or unit == _DECIMAL_UNITS[-1]:
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"


def binary_size(nbytes: float) -> str:
    """``12.4 MiB``: powers of 1024, three digits."""
    value = float(nbytes)
    for unit in _BINARY_UNITS[:-1]:
        if abs(value) < 1024:
            return f"{_three_digits(value)} {unit}"
        value /= 1024
    return f"{_three_digits(value)} {_BINARY_UNITS[-1]}"


def duration(seconds: float) -> str:
    """Three digits and a unit that fits: ``1.20 s``, ``31.4 ms``, ``850 µs``."""
    for limit, factor, unit in ((1.0, 1.0, "s"), (1e-3, 1e3, "ms")):
        if abs(seconds) >= limit * 0.9995:
            return f"{_three_digits(seconds * factor)} {unit}"
    return f"{_three_digits(seconds * 1e6)} µs"


def long_duration(seconds: float) -> str:
    """``12.3 s``, ``2m05s``, ``1h02m``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"


def json_number(value: float) -> float | str:
    """The number, or the text ``"NaN"``, ``"Infinity"`` or ``"-Infinity"``, which JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def json_value(value: Any, number: Callable[[float], float | str] = json_number) -> Any:
    """``value`` with ``number`` applied to every float inside it, and every key as text."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return {str(key): json_value(each, number) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each, number) for each in value]
    return value


def _three_digits(value: float) -> str:
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"
