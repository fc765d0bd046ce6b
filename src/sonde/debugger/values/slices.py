"""Parses an index such as ``[0, :, 3:5]``, and cuts the two-dimensional plane out of a tensor
that a table or a heat map shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.core.errors import UsageError

_PART = re.compile(r"\s*(-?\d{1,18})?\s*(?:(:)\s*(-?\d{1,18})?\s*(?::\s*(-?\d{1,18})?\s*)?)?")
_REST = "..."
_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Plane:
    """``rows`` x ``columns`` elements of a tensor, without copying them.

    ``index`` names each dimension; ``row_range`` and ``column_range`` are the places along the
    two dimensions that are not fixed (of less than two, the missing ones have one place, 0).
    """

    shape: tuple[int, ...]
    parts: tuple[int | range, ...]

    @property
    def _ranges(self) -> list[range]:
        return [part for part in self.parts if isinstance(part, range)]

    @property
    def row_range(self) -> range:
        return self._ranges[0] if len(self._ranges) == 2 else range(1)

    @property
    def column_range(self) -> range:
        return self._ranges[-1] if self._ranges else range(1)

    @property
    def index(self) -> str:
        texts = [
            str(part) if isinstance(part, int) else _slice_text(part, size)
            for part, size in zip(self.parts, self.shape, strict=True)
        ]
        return f"[{', '.join(texts)}]"

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """The elements as a view with two dimensions."""
        key = tuple(_slice(part) if isinstance(part, range) else part for part in self.parts)
        found: NDArray[Any] = array[key]
        return found.reshape(len(self.row_range), len(self.column_range))

    def clipped(self, most_cells: int, most_columns: int) -> Plane:
        """The first elements of the plane, as many as fit into a table of that size."""
        columns = min(len(self.column_range), most_columns)
        rows = most_cells // max(columns, 1)
        kept = [columns] if len(self._ranges) < 2 else [rows, columns]
        parts: list[int | range] = []
        for part in self.parts:
            parts.append(part if isinstance(part, int) else part[: kept.pop(0)])
        return Plane(self.shape, tuple(parts))


def parse_plane(index: str, shape: tuple[int, ...]) -> Plane:
    """The plane that ``index`` names; negative places count from the end.

    The brackets may be left out. An empty index, and ``...`` alone, name the last two dimensions,
    at place 0 of all others. Dimensions that are not named are taken whole: those at the end, or
    those at the place of ``...``. UsageError for text that is not an index, a place out of range,
    and more than two dimensions that are not fixed.
    """
    text = index.strip()
    if len(text) > _LONGEST or text.startswith("[") != text.endswith("]"):
        raise _error(f"{text[:40]!r} is not an index such as [0, :, 3:5]")
    inner = text[1:-1].strip() if text.startswith("[") else text
    if not text or inner == _REST:
        fixed = max(len(shape) - 2, 0)
        if 0 in shape[:fixed]:
            return Plane(shape, _empty(shape))
        return Plane(shape, (*(0 for _ in range(fixed)), *(range(size) for size in shape[fixed:])))
    words = _words(inner, len(shape), text)
    parts = [_part(word, size, text) for word, size in zip(words, shape, strict=True)]
    if sum(isinstance(part, range) for part in parts) > 2:
        raise _error(f"{text} leaves more than two dimensions open; give a number for the others")
    return Plane(shape, tuple(parts))


def _words(inner: str, dimensions: int, text: str) -> list[str]:
    """One word for each dimension; ``:`` for those that are not named."""
    words = inner.split(",") if inner else []
    rests = [place for place, word in enumerate(words) if word.strip() == _REST]
    if len(rests) > 1:
        raise _error(f"{text} has ... more than once")
    named = len(words) - len(rests)
    if named > dimensions:
        raise _error(f"{text} names {named} dimensions of a tensor with {dimensions}")
    place = rests[0] if rests else len(words)
    return [*words[:place], *[":"] * (dimensions - named), *words[place + len(rests) :]]


def _empty(shape: tuple[int, ...]) -> tuple[int | range, ...]:
    """The parts for a tensor without elements: an empty dimension, and the last one."""
    hole = shape.index(0)
    open_ones = {hole, len(shape) - 1}
    return tuple(range(size) if place in open_ones else 0 for place, size in enumerate(shape))


def _part(word: str, size: int, text: str) -> int | range:
    match = _PART.fullmatch(word)
    if match is None or not word.strip():
        raise _error(f"{word.strip()[:40]!r} in {text} is neither a number nor a slice")
    first, colon, last, step = match.groups()
    if colon is None:
        place = int(first)
        if not -size <= place < size:
            raise _error(f"{place} in {text} is outside of a dimension of {size}")
        return place % size
    if step is not None and int(step) == 0:
        raise _error(f"{word.strip()!r} in {text} has a step of 0")
    bounds = slice(*(None if each is None else int(each) for each in (first, last, step)))
    return range(*bounds.indices(size))


def _slice(part: range) -> slice:
    stop: int | None = part.stop
    if part.step < 0 and part.stop < 0:
        stop = None
    return slice(part.start, stop, part.step) if len(part) else slice(0, 0)


def _slice_text(part: range, size: int) -> str:
    if part == range(size):
        return ":"
    chosen = _slice(part)
    stop = "" if chosen.stop is None else chosen.stop
    return f"{chosen.start}:{stop}" + (f":{part.step}" if part.step != 1 else "")


def _error(message: str) -> UsageError:
    return UsageError(message, slug="tensor-index")


def as_floats(plane: NDArray[Any]) -> NDArray[np.float64]:
    """Elements as float64; of complex numbers the magnitudes."""
    if plane.dtype.kind == "c":
        plane = np.abs(plane)
    return plane.astype(np.float64)
