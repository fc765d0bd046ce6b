"""Aligns two sequences: the best pairs that keep the order of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

_T = TypeVar("_T")
_LIMIT = 4_000_000
"""Cells of the table of scores; longer sequences are aligned in pieces of the same length."""


def align_sequences(
    a: Sequence[_T], b: Sequence[_T], score: Callable[[_T, _T], float]
) -> list[tuple[_T, _T]]:
    """Pairs in order with the largest sum of scores; a score of 0 is no pair."""
    if not a or not b:
        return []
    pieces = int(np.ceil(np.sqrt(len(a) * len(b) / _LIMIT)))
    pairs: list[tuple[_T, _T]] = []
    for piece in range(pieces):
        some_a = a[piece * len(a) // pieces : (piece + 1) * len(a) // pieces]
        some_b = b[piece * len(b) // pieces : (piece + 1) * len(b) // pieces]
        pairs += _align(some_a, some_b, score)
    return pairs


def _align(
    a: Sequence[_T], b: Sequence[_T], score: Callable[[_T, _T], float]
) -> list[tuple[_T, _T]]:
    scores = np.array([[score(x, y) for y in b] for x in a], np.float64).reshape(len(a), len(b))
    best = np.zeros((len(a) + 1, len(b) + 1))
    for row in range(len(a)):
        here = best[row].copy()
        here[1:] = np.maximum(here[1:], best[row, :-1] + scores[row])
        best[row + 1] = np.maximum.accumulate(here)
    pairs: list[tuple[_T, _T]] = []
    row, column = len(a), len(b)
    while row and column:
        gain = scores[row - 1, column - 1]
        if gain > 0 and best[row, column] == best[row - 1, column - 1] + gain:
            row, column = row - 1, column - 1
            pairs.append((a[row], b[column]))
        elif best[row, column] == best[row - 1, column]:
            row -= 1
        else:
            column -= 1
    return pairs[::-1]
