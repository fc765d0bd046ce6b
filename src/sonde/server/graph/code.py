"""Reads the user's source code, only of files that a graph names."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from sonde.core.errors import UsageError
from sonde.server.graph.index import GraphIndex
from sonde.wire.graphs import CodeText

MOST_BYTES: Final = 4 << 20
MOST_AROUND: Final = 500
_LEAST_LETTERS: Final = 8


def read_code(index: GraphIndex, file: str, line: int, around: int) -> CodeText:
    """The lines of ``file`` around ``line``.

    The file must be Python code and in the stack of an op of the graph, and contain every line that
    the graph has of it: a rank proves by these lines that it has read the file, so a line without
    text proves nothing. Only surroundings of lines of the graph are read. In all other cases, as if
    the file has changed since it ran, the lines that the graph contains are returned.
    """
    known = {number: text for (name, number), text in index.codes.items() if name == file}
    if not known:
        raise UsageError(f"{file[:200]!r} is not a source file of this graph", slug="no-such-file")
    around = min(max(around, 0), MOST_AROUND)
    lines = _lines(file) if known.get(line, "").strip() else None
    if lines is not None and _is_what_ran(lines, known):
        first = max(line - around, 1)
        return CodeText(file, first, tuple(lines[first - 1 : line + around]))
    shown = {number: text for number, text in known.items() if abs(number - line) <= around}
    if not shown:
        raise UsageError(f"line {line} of {file[:200]!r} is not available", slug="no-such-file")
    first, last = min(shown), max(shown)
    return CodeText(file, first, tuple(shown.get(n, "") for n in range(first, last + 1)))


def _lines(file: str) -> list[str] | None:
    """The lines of a readable Python file of limited size, after symbolic links; else None."""
    path = Path(file)
    if not path.is_absolute():
        return None
    try:
        path = path.resolve(strict=True)
        if path.suffix != ".py":
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
                return None
            return opened.read(MOST_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError, RuntimeError):
        return None


def _is_what_ran(lines: list[str], known: dict[int, str]) -> bool:
    """Whether every line that the graph contains is unchanged in the file, and one of them says
    more than a bracket or a word that many files contain."""
    return max(map(_telling_letters, known.values()), default=0) >= _LEAST_LETTERS and all(
        0 < number <= len(lines) and lines[number - 1].strip() == text.strip()
        for number, text in known.items()
        if text.strip()
    )


def _telling_letters(text: str) -> int:
    return sum(letter.isalnum() for letter in text)
