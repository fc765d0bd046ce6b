"""A comparison of losses as a drawing: lines and texts, which SVG and PNG show alike.

Above the two curves, below their relative error on a logarithmic scale with the tolerance. Points
that are not finite are left out; above a thousand points the extremes of each column are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sonde.compare.losses import LossComparison

WIDTH, HEIGHT = 960, 620
_LEFT, _RIGHT = 84, 936
_TOP, _MIDDLE, _LOWER, _BOTTOM = 64, 356, 408, 570
COLOR_A, COLOR_B, COLOR_ERROR, COLOR_MARK = "#1f77b4", "#e8730c", "#555555", "#c8102e"
_GRID, _INK = "#e4e4e4", "#222222"
_MAX_POINTS = 1000
_LEAST_ERROR = 1e-9
"""Smaller relative errors are drawn on the lower edge."""


@dataclass(frozen=True, slots=True)
class Line:
    points: tuple[tuple[float, float], ...]
    color: str
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Label:
    x: float
    y: float
    text: str
    color: str = _INK
    size: int = 13
    anchor: str = "start"


@dataclass(frozen=True, slots=True)
class Drawing:
    width: int
    height: int
    shapes: tuple[Line | Label, ...]


@dataclass(frozen=True, slots=True)
class _Axis:
    """Values from ``low`` to ``high`` as places from ``start`` to ``stop``."""

    low: float
    high: float
    start: float
    stop: float

    def place(self, value: float) -> float:
        span = self.high - self.low
        share = (value - self.low) / span if span else 0.5
        return self.start + min(max(share, 0.0), 1.0) * (self.stop - self.start)


def draw(found: LossComparison, title: str) -> Drawing:
    """The whole picture."""
    steps = np.array(found.steps, np.float64)
    across = _Axis(float(steps[0]), float(steps[-1]), _LEFT, _RIGHT)
    shapes: list[Line | Label] = [Label(_LEFT, 26, title, size=16)]
    shapes += _legend(found)
    shapes += _curves(found, steps, across)
    shapes += _errors(found, steps, across)
    if found.first_out is not None:
        place = across.place(steps[found.first_out])
        shapes.append(Line(((place, _TOP), (place, _BOTTOM)), COLOR_MARK, 1.0, dashed=True))
        near_end = place > (_LEFT + _RIGHT) / 2
        shapes.append(
            Label(
                place + (-6 if near_end else 6),
                _TOP + 14,
                f"first out of tolerance: step {found.steps[found.first_out]}",
                COLOR_MARK,
                anchor="end" if near_end else "start",
            )
        )
    return Drawing(WIDTH, HEIGHT, tuple(shapes))


def _legend(found: LossComparison) -> list[Line | Label]:
    return [
        Line(((_LEFT, 46), (_LEFT + 24, 46)), COLOR_A, 2.0),
        Label(_LEFT + 30, 50, f"a: {_short(found.a.origin)}"),
        Line(((_LEFT + 430, 46), (_LEFT + 454, 46)), COLOR_B, 2.0, dashed=True),
        Label(_LEFT + 460, 50, f"b: {_short(found.b.origin)}"),
    ]


def _short(text: str) -> str:
    return text if len(text) <= 50 else f"...{text[-47:]}"


def _curves(found: LossComparison, steps: NDArray[np.float64], across: _Axis) -> list[Line | Label]:
    both = np.concatenate([found.values_a, found.values_b])
    finite = both[np.isfinite(both)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    up = _Axis(low - margin, high + margin, _MIDDLE, _TOP)
    shapes: list[Line | Label] = []
    for value in ticks(up.low, up.high):
        y = up.place(value)
        shapes.append(Line(((_LEFT, y), (_RIGHT, y)), _GRID))
        shapes.append(Label(_LEFT - 8, y + 4, f"{value:.4g}", anchor="end"))
    shapes.append(Label(_LEFT - 8, _TOP - 10, "loss", anchor="end"))
    for values, color, width, dashed in (
        (found.values_a, COLOR_A, 2.5, False),
        (found.values_b, COLOR_B, 1.5, True),
    ):
        for piece in polylines(steps, values):
            points = tuple((across.place(x), up.place(y)) for x, y in piece)
            shapes.append(Line(points, color, width, dashed))
    return shapes


def _errors(found: LossComparison, steps: NDArray[np.float64], across: _Axis) -> list[Line | Label]:
    finite = found.errors[np.isfinite(found.errors)]
    largest = max(float(finite.max()) if finite.size else 0.0, found.rtol, 10 * _LEAST_ERROR)
    positive = finite[finite > 0]
    least = float(positive.min()) if positive.size else found.rtol / 100
    low = math.floor(math.log10(max(min(least, found.rtol / 10 or 1.0), _LEAST_ERROR)))
    high = math.ceil(math.log10(largest) + 1e-9)
    up = _Axis(low, max(high, low + 1), _BOTTOM, _LOWER)
    shapes: list[Line | Label] = []
    every = max(1, (high - low) // 6)
    for power in range(low, max(high, low + 1) + 1, every):
        y = up.place(power)
        shapes.append(Line(((_LEFT, y), (_RIGHT, y)), _GRID))
        shapes.append(Label(_LEFT - 8, y + 4, f"1e{power}", anchor="end"))
    for value in ticks(across.low, across.high):
        if float(value).is_integer():
            shapes.append(
                Label(across.place(value), _BOTTOM + 20, f"{int(value)}", anchor="middle")
            )
    shapes.append(Label((_LEFT + _RIGHT) / 2, _BOTTOM + 42, "step", anchor="middle"))
    shapes.append(Label(_LEFT, _LOWER - 12, "relative error; dashed: the tolerance"))
    if found.rtol > 0:
        y = up.place(math.log10(found.rtol))
        shapes.append(Line(((_LEFT, y), (_RIGHT, y)), COLOR_MARK, 1.0, dashed=True))
    logs = np.where(
        np.isfinite(found.errors), np.log10(np.maximum(found.errors, 10.0**low)), np.nan
    )
    for piece in polylines(steps, logs):
        points = tuple((across.place(x), up.place(y)) for x, y in piece)
        shapes.append(Line(points, COLOR_ERROR, 1.5))
    return shapes


def polylines(x: NDArray[np.float64], y: NDArray[np.float64]) -> list[list[tuple[float, float]]]:
    """The finite points in pieces, thinned out to the extremes of each column."""
    if len(x) > _MAX_POINTS:
        x, y = _thinned(x, y)
    pieces: list[list[tuple[float, float]]] = [[]]
    for place, value in zip(x.tolist(), y.tolist(), strict=True):
        if math.isfinite(value):
            pieces[-1].append((place, value))
        elif pieces[-1]:
            pieces.append([])
    return [piece if len(piece) > 1 else [piece[0], piece[0]] for piece in pieces if piece]


def _thinned(
    x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    kept: list[int] = []
    for part in np.array_split(np.arange(len(x)), _MAX_POINTS // 2):
        finite = part[np.isfinite(y[part])]
        if finite.size:
            kept += sorted({int(finite[np.argmin(y[finite])]), int(finite[np.argmax(y[finite])])})
        if finite.size < part.size:
            kept.append(int(part[~np.isfinite(y[part])][0]))
    kept = sorted(set(kept))
    return x[kept], y[kept]


def ticks(low: float, high: float, count: int = 6) -> Sequence[float]:
    """Round numbers between two others, about ``count`` of them."""
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        return [low]
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    first = math.ceil(low / step)
    return [(first + k) * step for k in range(int(span / step) + 1) if (first + k) * step <= high]
