"""Finds a smallest set of rows for which a test still holds, by bisection (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class RowSet:
    """Rows for which the test holds. ``is_minimal``: it holds for no set with one of them left out,
    as far as the number of executions allowed to find out."""

    rows: tuple[int, ...]
    executions: int
    is_minimal: bool


def smallest_rows(
    count: int,
    holds: Callable[[Sequence[int]], bool],
    *,
    most: int = 200,
    is_over: Callable[[], bool] = lambda: False,
) -> RowSet | None:
    """A minimal set of the rows 0 to ``count`` - 1 for which ``holds``; None if not for all.

    Halves are tried first, then smaller parts and their complements. ``holds`` is called at most
    ``most`` times, and no more when ``is_over``.
    """
    rows = list(range(count))
    tried = 1
    if not holds(rows):
        return None
    parts = 2
    while len(rows) > 1:
        found: list[int] | None = None
        for candidate, is_part in _candidates(rows, parts):
            if tried >= most or is_over():
                return RowSet(tuple(rows), tried, is_minimal=False)
            tried += 1
            if holds(candidate):
                found = candidate
                parts = 2 if is_part else max(parts - 1, 2)
                break
        if found is not None:
            rows = found
        elif parts >= len(rows):
            break
        else:
            parts = min(2 * parts, len(rows))
    return RowSet(tuple(rows), tried, is_minimal=True)


def _candidates(rows: list[int], parts: int) -> list[tuple[list[int], bool]]:
    """The rows in ``parts`` parts of about the same size, then the complement of each part."""
    edges = [len(rows) * number // parts for number in range(parts + 1)]
    pieces = [(rows[start:stop], rows[:start] + rows[stop:]) for start, stop in pairwise(edges)]
    inside = [(piece, True) for piece, _ in pieces]
    outside = [(rest, False) for _, rest in pieces] if parts > 2 else []
    return [each for each in (*inside, *outside) if each[0]]
