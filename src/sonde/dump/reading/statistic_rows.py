"""Rows of ``statistic.csv``, by Sonde or by MindSpore."""

from __future__ import annotations

import csv
import io as text_io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from sonde.core.dtypes import dtype_named
from sonde.core.errors import SondeError
from sonde.core.keys import Io
from sonde.dump.layout import STATISTIC_COLUMNS, STATISTIC_TITLES

Number = int | float | str

_CATEGORY_OF = {title.lower(): category for category, title in STATISTIC_TITLES.items()}
_TEXTS = frozenset({"md5", "xxh3"})
_SHAPE = re.compile(r"[\[(]\s*((?:[0-9]{1,18}\s*,\s*)*[0-9]{0,18})\s*,?\s*[\])]")
_COLUMN_OF = {"input/output": "io"}


@dataclass(frozen=True, slots=True)
class StatisticRow:
    """The statistics of one tensor. ``op_name`` is as written: MindSpore escapes it, Sonde not.

    ``values`` has the categories of the file by their names in the configuration (``max``,
    ``nan count``, ``md5``): counts are whole numbers, hashes text, all others floats, NaN and the
    infinities among them; cells that are empty or not a number are left out. ``is_single``: sums
    were made in single precision, so that mean and norm of equal tensors may differ a little.
    """

    op_type: str
    op_name: str
    timestamp: int
    io: Io
    slot: int
    nbytes: int
    dtype: str
    shape: tuple[int, ...]
    values: dict[str, Number]
    is_single: bool = False


@dataclass(frozen=True, slots=True)
class StatisticFile:
    """The rows of one file, in its order, and the lines that could not be read."""

    rows: tuple[StatisticRow, ...]
    problems: tuple[str, ...]


def read_rows(text: str) -> StatisticFile:
    """Read any text; a line that is not a row becomes a problem with its line number.

    A last line without line end was cut off by a kill and is left out.
    """
    whole = text[: text.rfind("\n") + 1]
    lines = csv.reader(text_io.StringIO(whole, newline=""))
    rows: list[StatisticRow] = []
    problems: list[str] = []
    try:
        columns = _columns(next(lines, []))
        missing = [name for name in STATISTIC_COLUMNS if name.lower() not in columns]
        if missing:
            return StatisticFile((), (f"line 1: no column {missing[0]!r}",) if text else ())
        reader = _RowReader(columns)
        for cells in lines:
            try:
                rows.append(reader.row(cells))
            except (ValueError, IndexError, SondeError) as error:
                problems.append(f"line {lines.line_num}: {error}")
    except csv.Error as error:
        problems.append(f"line {lines.line_num}: {error}")
    return StatisticFile(tuple(rows), tuple(problems))


def _columns(header: list[str]) -> dict[str, int]:
    names = (name.strip().lower() for name in header)
    return {_COLUMN_OF.get(name, name): index for index, name in enumerate(names) if name}


class _RowReader:
    """The columns of one file by their number."""

    def __init__(self, columns: dict[str, int]) -> None:
        self._places = tuple(columns[name.lower()] for name in STATISTIC_COLUMNS)
        self._values = tuple(
            (_CATEGORY_OF[title], index, _reader(_CATEGORY_OF[title]))
            for title, index in columns.items()
            if title in _CATEGORY_OF
        )

    def row(self, cells: list[str]) -> StatisticRow:
        op_type, op_name, _, _, time, io, slot, nbytes, dtype, shape = [
            cells[place] for place in self._places
        ]
        if io not in ("input", "output"):
            io = io.strip().lower()
            if io not in ("input", "output"):
                raise ValueError(f"{io!r} is neither input nor output")
        values: dict[str, Number] = {}
        for category, index, read in self._values:
            text = cells[index].strip() if index < len(cells) else ""
            if text and text != "null":
                values[category] = read(text)
        return StatisticRow(
            op_type,
            op_name,
            _whole(time),
            cast(Io, io),
            _whole(slot),
            _whole(nbytes),
            _dtype(dtype),
            parse_shape(shape),
            values,
        )


@lru_cache(maxsize=1024)
def _dtype(text: str) -> str:
    return dtype_named(text.strip()).name


@lru_cache(maxsize=1024)
def parse_shape(text: str) -> tuple[int, ...]:
    """The sizes in ``(4,1,28,28)``; ValueError for other texts."""
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a shape")
    return tuple(int(size) for size in match[1].split(",") if size.strip())


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text)


def _reader(category: str) -> Callable[[str], Number]:
    if category in _TEXTS:
        return str
    return _whole if category.endswith("count") else float
