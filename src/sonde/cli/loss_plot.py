"""Plots two curves in the terminal with braille characters."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from sonde.compare.losses.compare import LossComparison
from sonde.report.thinning import thinned

_MAX_POINTS = 1000
_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_STYLE_A, _STYLE_B, _STYLE_BOTH = "cyan", "yellow", "white"


def plot(found: LossComparison, width: int, height: int = 12) -> Text:
    """Both curves over the steps: a in cyan, b in yellow, white where they coincide."""
    both = np.concatenate([found.values_a, found.values_b])
    finite = both[np.isfinite(both)]
    if not finite.size:
        return Text("no finite values to plot", "dim")
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    labels = [f"{high:.4g}", f"{low:.4g}"]
    margin = max(map(len, labels)) + 1
    columns = max(10, width - margin - 1)
    steps = np.array(found.steps, np.float64)
    a = _canvas(steps, found.values_a, (low, high), columns, height)
    b = _canvas(steps, found.values_b, (low, high), columns, height)
    text = Text()
    for row in range(height):
        label = labels[0] if row == 0 else labels[1] if row == height - 1 else ""
        text.append(label.rjust(margin - 1) + " ", "dim")
        for column in range(columns):
            dots_a, dots_b = int(a[row, column]), int(b[row, column])
            style = _STYLE_BOTH if dots_a and dots_b else _STYLE_A if dots_a else _STYLE_B
            text.append(chr(_BRAILLE | dots_a | dots_b), style)
        text.append("\n")
    first, last = str(found.steps[0]), str(found.steps[-1])
    text.append(" " * margin + first.ljust(columns - len(last)) + last + "\n", "dim")
    legend = (("a", _STYLE_A), " and ", ("b", _STYLE_B), (" by step; both in white", "dim"))
    return text.append_text(Text.assemble(" " * margin, *legend))


def _canvas(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    limits: tuple[float, float],
    columns: int,
    rows: int,
) -> NDArray[np.int64]:
    """The dots of a curve, eight to a character: two wide, four high."""
    dots = np.zeros((rows, columns), np.int64)
    wide, tall = 2 * columns - 1, 4 * rows - 1
    low, high = limits
    span = float(x[-1] - x[0]) or 1.0
    for piece in _polylines(x, y):
        places = [
            (round((px - x[0]) / span * wide), round((high - py) / (high - low) * tall))
            for px, py in piece
        ]
        for (x0, y0), (x1, y1) in pairwise(places):
            count = max(abs(x1 - x0), abs(y1 - y0), 1)
            for k in range(count + 1):
                across = math.floor(x0 + (x1 - x0) * k / count + 0.5)
                down = math.floor(y0 + (y1 - y0) * k / count + 0.5)
                dots[down // 4, across // 2] |= _DOTS[down % 4][across % 2]
    return dots


def _polylines(x: NDArray[np.float64], y: NDArray[np.float64]) -> list[list[tuple[float, float]]]:
    """The runs of finite points; of many points, the extremes of each column."""
    kept = thinned(y, _MAX_POINTS)
    pieces: list[list[tuple[float, float]]] = [[]]
    for place, value in zip(x[kept].tolist(), y[kept].tolist(), strict=True):
        if math.isfinite(value):
            pieces[-1].append((place, value))
        elif pieces[-1]:
            pieces.append([])
    return [piece if len(piece) > 1 else [piece[0], piece[0]] for piece in pieces if piece]
