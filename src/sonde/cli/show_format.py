"""Formats numbers and tensors as text, for ``sonde show``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from rich.text import Text

from sonde.core.errors import DumpError
from sonde.core.selection import step_set
from sonde.core.text.number_text import count_text, number_text
from sonde.debugger.values.slices import parse_plane
from sonde.dump.reading.statistic_rows import Number
from sonde.dump.tensor_record import TensorRecord

_COLUMNS = {"min": "min", "max": "max", "avg": "mean", "std": "std", "l2norm": "l2norm"}
_NON_FINITE = ("NaN", "Infinity", "-Infinity")


def joined(*parts: Text) -> Text:
    return Text("  ").join(part for part in parts if part.plain)


def aligned(texts: Sequence[str]) -> list[str]:
    width = max(map(len, texts), default=0)
    return [text.ljust(width) for text in texts]


def statistic_column(title: str, rows: Sequence[dict[str, Number]], digits: int) -> list[str]:
    """One statistic of every row, with its name; blank where a row lacks it."""
    label = _COLUMNS[title]
    return aligned(
        [
            f"{label} {number_text(row[title], digits)}"
            if title in row and row.get("count") != 0
            else ""
            for row in rows
        ]
    )


def shown_statistics(rows: Sequence[dict[str, Number]]) -> list[str]:
    """The statistics to show: the norm only where there is no mean."""
    known = {name for found in rows for name in found}
    return [name for name in _COLUMNS if name in known and (name != "l2norm" or "avg" not in known)]


def notes_text(found: dict[str, Number]) -> Text:
    if found.get("count") == 0:
        return Text("empty", "dim")
    parts = []
    for name, label in (
        ("nan count", "nan"),
        ("positive inf count", "+inf"),
        ("negative inf count", "-inf"),
    ):
        count = found.get(name)
        if isinstance(count, int) and count:
            parts.append(Text(f"{count:,} {label}", "bold red"))
    if parts and (extremes := _finite_extremes(found)):
        parts.append(Text(extremes))
    zeros, total = found.get("zero count"), found.get("count")
    if isinstance(zeros, int) and zeros:
        share = f" ({zeros / total:.0%})" if isinstance(total, int) and total else ""
        parts.append(Text(f"{count_text(zeros, 'zero')}{share}", "dim"))
    return Text("  ").join(parts)


def _finite_extremes(found: dict[str, Number]) -> str:
    """The extremes of the finite values, where others hide them."""
    low, high = found.get("finite min"), found.get("finite max")
    if low is None or high is None or "nan" in (number_text(low), number_text(high)):
        return ""
    return f"finite {number_text(low)} to {number_text(high)}"


def spec_text(dtype: str, shape: Iterable[object]) -> str:
    """``float32[2,1,8,8]``"""
    return f"{dtype}[{','.join(map(str, shape))}]"


def overflow_spec(tensor: dict[str, Any]) -> str:
    """Dtype and shape of an entry of ``overflow.json``, which may contain anything."""
    shape = tensor.get("shape")
    return spec_text(str(tensor.get("dtype", "")), shape if isinstance(shape, list) else ())


def overflow_values(tensor: dict[str, Any]) -> dict[str, Number]:
    """Statistics of ``overflow.json`` by category."""
    return {
        name.replace("_", " "): float(value) if value in _NON_FINITE else value
        for name, value in tensor.items()
        if name not in ("slot", "dtype", "shape") and isinstance(value, int | float | str)
    }


def values_text(record: TensorRecord, index: str) -> str:
    """The elements at ``index``, shortened; all if it is empty."""
    try:
        array = record.numpy()
        if index:
            array = parse_plane(index, array.shape).of(array)
        return np.array2string(array, threshold=60, edgeitems=3, precision=4)
    except DumpError as error:
        return error.message


def steps_text(steps: Sequence[int]) -> str:
    """``0|5-8``"""
    return str(step_set(steps)) if steps else "none"
