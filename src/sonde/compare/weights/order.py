"""Pairs parameters by shape and order, when their names do not correspond."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sonde.compare.parameter_names import tokens
from sonde.compare.sequence_alignment import align_sequences
from sonde.compare.weights.fit import fit

Shapes = Mapping[str, Sequence[int]]

_MAX_CELLS = 1_000_000
_LEAVES = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def pair_by_order(a: Shapes, b: Shapes) -> list[tuple[str, str]]:
    """The best pairs that keep the order of both sides; only of shapes that fit.

    Equal shapes count more than transposed ones, equal last parts of names more than others, and
    common words a little. Networks too large for that are paired by equal shapes alone.
    """
    names_a, names_b = _ordered(a), _ordered(b)
    if len(names_a) * len(names_b) > _MAX_CELLS:
        return _by_equal_shapes(a, names_a, b, names_b)
    # From the end, so that of several alignments with the same score the first pairs are chosen.
    pairs = align_sequences(names_a[::-1], names_b[::-1], lambda x, y: _score(x, a[x], y, b[y]))
    return pairs[::-1]


def _ordered(shapes: Shapes) -> list[str]:
    """The names by module; inside a module, weight before bias before running statistics."""
    modules: dict[tuple[str, ...], list[str]] = {}
    for name in shapes:
        modules.setdefault(tokens(name)[:-1], []).append(name)

    def place(name: str) -> int:
        leaf = tokens(name)[-1]
        return _LEAVES.index(leaf) if leaf in _LEAVES else len(_LEAVES)

    return [name for names in modules.values() for name in sorted(names, key=place)]


def _score(a: str, shape_a: Sequence[int], b: str, shape_b: Sequence[int]) -> float:
    """How well two parameters correspond; 0 if they cannot be a pair."""
    found = fit(shape_a, shape_b)
    leaf_a, leaf_b = tokens(a)[-1], tokens(b)[-1]
    if found is None or (leaf_a != leaf_b and leaf_a in _LEAVES and leaf_b in _LEAVES):
        return 0.0
    score = 4.0 if found.is_plain else 3.0 if found.reshaped else 2.0
    score += 2.0 if leaf_a == leaf_b else 0.0
    words_a, words_b = _words(a), _words(b)
    return score + len(words_a & words_b) / max(len(words_a | words_b), 1)


def _words(name: str) -> frozenset[str]:
    return frozenset(
        word for part in tokens(name)[:-1] for word in re.split(r"[_\d]+", part) if word
    )


def _by_equal_shapes(
    a: Shapes, names_a: list[str], b: Shapes, names_b: list[str]
) -> list[tuple[str, str]]:
    """Pair the n-th parameters of each shape and last part of the name."""
    waiting: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for name in reversed(names_b):
        waiting.setdefault((tokens(name)[-1], tuple(b[name])), []).append(name)
    pairs: list[tuple[str, str]] = []
    for name in names_a:
        same = waiting.get((tokens(name)[-1], tuple(a[name])))
        if same:
            pairs.append((name, same.pop()))
    return pairs
