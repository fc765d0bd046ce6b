"""Pairing parameters whose names say nothing, by shape and order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sonde.compare.parameter_names import tokens
from sonde.compare.weights.fit import Fit, fit

Shapes = Mapping[str, Sequence[int]]

_MAX_CELLS = 1_000_000
_LEAVES = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def align(a: Shapes, b: Shapes) -> list[tuple[str, str, Fit]]:
    """The best pairs that keep the order of both sides; only of shapes that fit.

    Equal shapes count more than transposed ones, equal last parts of names more than others, and
    words in common a little. Networks too large for that are paired by equal shapes alone.
    """
    names_a, names_b = _ordered(a), _ordered(b)
    if len(names_a) * len(names_b) > _MAX_CELLS:
        return _by_equal_shapes(a, names_a, b, names_b)
    scores: list[list[tuple[float, Fit | None]]] = [
        [_score(x, a[x], y, b[y]) for y in names_b] for x in names_a
    ]
    best = [[0.0] * (len(names_b) + 1) for _ in range(len(names_a) + 1)]
    for i in reversed(range(len(names_a))):
        row, below = best[i], best[i + 1]
        for j in reversed(range(len(names_b))):
            score, found = scores[i][j]
            together = below[j + 1] + score if found is not None else 0.0
            row[j] = max(together, below[j], row[j + 1])
    pairs: list[tuple[str, str, Fit]] = []
    i = j = 0
    while i < len(names_a) and j < len(names_b):
        score, found = scores[i][j]
        if found is not None and best[i][j] == best[i + 1][j + 1] + score:
            pairs.append((names_a[i], names_b[j], found))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _ordered(shapes: Shapes) -> list[str]:
    """Module by module as they come; inside one, weight before bias before running numbers."""
    modules: dict[tuple[str, ...], list[str]] = {}
    for name in shapes:
        modules.setdefault(tokens(name)[:-1], []).append(name)

    def place(name: str) -> int:
        leaf = tokens(name)[-1]
        return _LEAVES.index(leaf) if leaf in _LEAVES else len(_LEAVES)

    return [name for names in modules.values() for name in sorted(names, key=place)]


def _score(
    a: str, shape_a: Sequence[int], b: str, shape_b: Sequence[int]
) -> tuple[float, Fit | None]:
    found = fit(shape_a, shape_b)
    if found is None:
        return 0.0, None
    leaf_a, leaf_b = tokens(a)[-1], tokens(b)[-1]
    if leaf_a != leaf_b and leaf_a in _LEAVES and leaf_b in _LEAVES:
        return 0.0, None
    score = 4.0 if found.is_plain else 3.0 if found.reshaped else 2.0
    score += 2.0 if leaf_a == leaf_b else 0.0
    words_a, words_b = _words(a), _words(b)
    return score + len(words_a & words_b) / max(len(words_a | words_b), 1), found


def _words(name: str) -> frozenset[str]:
    return frozenset(
        word for part in tokens(name)[:-1] for word in re.split(r"[_\d]+", part) if word
    )


def _by_equal_shapes(
    a: Shapes, names_a: list[str], b: Shapes, names_b: list[str]
) -> list[tuple[str, str, Fit]]:
    """The n-th of each shape and last part with the n-th of the other side."""
    waiting: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for name in reversed(names_b):
        waiting.setdefault((tokens(name)[-1], tuple(b[name])), []).append(name)
    pairs: list[tuple[str, str, Fit]] = []
    for name in names_a:
        same = waiting.get((tokens(name)[-1], tuple(a[name])))
        if same:
            pairs.append((name, same.pop(), Fit()))
    return pairs
