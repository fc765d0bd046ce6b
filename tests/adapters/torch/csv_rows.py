"""``statistic.csv`` read with the csv module, and its expected contents computed with numpy."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBERS = {
    "max": "Max Value",
    "min": "Min Value",
    "avg": "Avg Value",
    "count": "Count",
    "negative zero count": "Negative Zero Count",
    "positive zero count": "Positive Zero Count",
    "zero count": "Zero Count",
    "nan count": "NaN Count",
    "negative inf count": "Negative Inf Count",
    "positive inf count": "Positive Inf Count",
    "l2norm": "L2Norm Value",
    "std": "Std Value",
    "abs mean": "Abs Mean Value",
    "finite max": "Finite Max Value",
    "finite min": "Finite Min Value",
}
ALL = tuple(NUMBERS)
HASHES = {"md5": "MD5", "xxh3": "XXH3"}
FIXED = (
    "Op Type",
    "Op Name",
    "Task ID",
    "Stream ID",
    "Timestamp",
    "IO",
    "Slot",
    "Data Size",
    "Data Type",
    "Shape",
)
_SUMS = ("avg", "l2norm", "std", "abs mean")


@dataclass(frozen=True)
class Row:
    """One line: the fixed columns but the timestamp, and the numbers as text by category."""

    op_type: str
    op: str
    io: str
    slot: int
    size: int
    dtype: str
    shape: str
    texts: tuple[tuple[str, str], ...]

    @property
    def place(self) -> tuple[str, str, int]:
        return self.op, self.io, self.slot

    def text(self, category: str) -> str:
        return dict(self.texts)[category]

    def number(self, category: str) -> float | int:
        text = self.text(category)
        return int(text) if text.lstrip("-").isdigit() else float(text)


def rows_of(file: Path) -> list[Row]:
    titles = {title: name for name, title in {**NUMBERS, **HASHES}.items()}
    with file.open(newline="") as lines:
        reader = csv.reader(lines)
        header = next(reader)
        assert tuple(header[:10]) == FIXED
        found = []
        stamps = []
        for cells in reader:
            assert len(cells) == len(header)
            assert cells[2:4] == ["0", "0"]
            stamps.append(int(cells[4]))
            texts = tuple(
                (titles[title], text) for title, text in zip(header[10:], cells[10:], strict=True)
            )
            found.append(
                Row(
                    cells[0],
                    cells[1],
                    cells[5],
                    int(cells[6]),
                    int(cells[7]),
                    cells[8],
                    cells[9],
                    texts,
                )
            )
        assert stamps == sorted(stamps)
        return found


def statistics_of(path: Path) -> dict[int, list[Row]]:
    """The rows of every step of a dump, in the order of the file."""
    files = {int(file.parent.name): file for file in path.rglob("statistic.csv")}
    return {step: rows_of(files[step]) for step in sorted(files)}


def expected(array: NDArray[Any]) -> dict[str, float | int]:
    """Every statistic of ``array``, in float64."""
    is_integer = array.dtype.kind in "biu"
    with np.errstate(invalid="ignore"):  # numpy warns of NaN in types that are not its own
        values = array.astype(np.float64).ravel()
    finite = values[np.isfinite(values)]
    exact = [int(value) for value in array.ravel()] if is_integer else []
    with np.errstate(all="ignore"):
        return {
            "max": max(exact) if exact else _extreme(values, np.max),
            "min": min(exact) if exact else _extreme(values, np.min),
            "avg": float(values.mean()) if values.size else math.nan,
            "count": values.size,
            "negative zero count": int((values < 0).sum()),
            "positive zero count": int((values > 0).sum()),
            "zero count": int((values == 0).sum()),
            "nan count": int(np.isnan(values).sum()),
            "negative inf count": int(np.isneginf(values).sum()),
            "positive inf count": int(np.isposinf(values).sum()),
            "l2norm": float(np.linalg.norm(values)),
            "std": float(values.std()) if values.size == finite.size > 0 else math.nan,
            "abs mean": float(np.abs(values).mean()) if values.size else math.nan,
            "finite max": max(exact) if exact else _extreme(finite, np.max),
            "finite min": min(exact) if exact else _extreme(finite, np.min),
        }


def _extreme(values: NDArray[np.float64], choose: Any) -> float:
    return float(choose(values)) if values.size else math.nan


def assert_right(row: Row, array: NDArray[Any]) -> None:
    """Counts and extremes exactly, sums to 1e-12 of the size of the elements."""
    true = expected(array)
    for category, _ in row.texts:
        if category in HASHES:
            continue
        mine, theirs = row.number(category), true[category]
        where = (row.place, category, mine, theirs)
        if math.isnan(theirs) or math.isinf(theirs):
            assert mine == theirs or (math.isnan(mine) and math.isnan(theirs)), where
        elif category in _SUMS:
            size = max(abs(theirs), abs(float(true["abs mean"])))
            assert abs(mine - theirs) <= 1e-12 * size, where
        else:
            assert mine == theirs, where
            assert type(mine) is type(theirs), where
