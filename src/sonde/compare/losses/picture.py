"""Draws a comparison of losses as a PNG, with pillow.

At the top the two curves, below them their relative error on a logarithmic scale with the
tolerance. Points that are not finite are omitted; of more than a thousand points, the extremes of
each column are drawn.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sonde.compare.losses.compare import LossComparison
from sonde.core.errors import UsageError

WIDTH, HEIGHT = 1920, 1240
_LEFT, _RIGHT = 168, 1872
_TOP, _MIDDLE, _LOWER, _BOTTOM = 128, 712, 816, 1140
_COLOR_A, _COLOR_B, _COLOR_ERROR, _COLOR_MARK = "#1f77b4", "#e8730c", "#555555", "#c8102e"
_GRID, _INK = "#e4e4e4", "#222222"
_MAX_POINTS = 1000
_LEAST_ERROR = 1e-9
"""Smaller relative errors are drawn at the lower edge."""

Curve = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Axis:
    """Maps values from ``low`` to ``high`` to pixels from ``start`` to ``stop``."""

    low: float
    high: float
    start: float
    stop: float

    def pixel(self, value: float) -> float:
        if self.low == self.high:
            return (self.start + self.stop) / 2
        return float(np.interp(value, (self.low, self.high), (self.start, self.stop)))


class _Picture:
    """An image with lines, texts and curves."""

    def __init__(self, across: _Axis) -> None:
        try:
            from PIL import Image, ImageDraw, ImageFont
        except ImportError:
            raise UsageError(
                "--png needs pillow: pip install pillow (--html does not)", slug="extra-missing"
            ) from None
        self.image = Image.new("RGB", (WIDTH, HEIGHT), "#ffffff")
        self._draw = ImageDraw.Draw(self.image)
        self._fonts = {size: ImageFont.load_default(size) for size in (26, 32)}
        self._across = across

    def line(self, points: Sequence[tuple[float, float]], color: str, width: int = 2) -> None:
        self._draw.line(points, fill=color, width=width, joint="curve")

    def text(
        self, x: float, y: float, text: str, color: str = _INK, anchor: str = "ls", size: int = 26
    ) -> None:
        self._draw.text((x, y), text, fill=color, font=self._fonts[size], anchor=anchor)

    def tick(self, up: _Axis, value: float, text: str) -> None:
        y = up.pixel(value)
        self.line([(_LEFT, y), (_RIGHT, y)], _GRID)
        self.text(_LEFT - 16, y + 8, text, anchor="rs")

    def curve(self, x: Curve, y: Curve, up: _Axis, color: str, width: int) -> None:
        for piece in polylines(x, y):
            self.line([(self._across.pixel(a), up.pixel(b)) for a, b in piece], color, width)


def to_png(found: LossComparison, title: str) -> bytes:
    """The picture as a PNG file; needs pillow."""
    steps = np.array(found.steps, np.float64)
    across = _Axis(float(steps[0]), float(steps[-1]), _LEFT, _RIGHT)
    picture = _Picture(across)
    picture.text(_LEFT, 52, title, size=32)
    for indent, color, text in (
        (0, _COLOR_A, f"a: {found.a.origin}"),
        (860, _COLOR_B, f"b: {found.b.origin}"),
    ):
        picture.line([(_LEFT + indent, 92), (_LEFT + indent + 48, 92)], color, 4)
        picture.text(_LEFT + indent + 60, 100, text if len(text) <= 53 else f"...{text[-50:]}")
    _draw_losses(picture, found, steps)
    _draw_errors(picture, found, steps)
    for step in ticks(across.low, across.high):
        if float(step).is_integer():
            picture.text(across.pixel(step), _BOTTOM + 40, f"{int(step)}", anchor="ms")
    picture.text((_LEFT + _RIGHT) / 2, _BOTTOM + 84, "step", anchor="ms")
    if found.first_out is not None:
        x = across.pixel(steps[found.first_out])
        picture.line([(x, _TOP), (x, _BOTTOM)], _COLOR_MARK)
        text = f"first out of tolerance: step {found.steps[found.first_out]}"
        is_right = x > (_LEFT + _RIGHT) / 2
        place = x - 12 if is_right else x + 12
        picture.text(place, _TOP + 28, text, _COLOR_MARK, "rs" if is_right else "ls")
    stream = io.BytesIO()
    picture.image.save(stream, "PNG")
    return stream.getvalue()


def _draw_losses(picture: _Picture, found: LossComparison, steps: Curve) -> None:
    both = np.concatenate([found.values_a, found.values_b])
    finite = both[np.isfinite(both)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    up = _Axis(low - margin, high + margin, _MIDDLE, _TOP)
    for value in ticks(up.low, up.high):
        picture.tick(up, value, f"{value:.4g}")
    picture.text(_LEFT - 16, _TOP - 20, "loss", anchor="rs")
    picture.curve(steps, found.values_a, up, _COLOR_A, 5)
    picture.curve(steps, found.values_b, up, _COLOR_B, 3)


def _draw_errors(picture: _Picture, found: LossComparison, steps: Curve) -> None:
    finite = found.errors[np.isfinite(found.errors)]
    largest = max(float(finite.max()) if finite.size else 0.0, found.rtol, 10 * _LEAST_ERROR)
    positive = finite[finite > 0]
    least = float(positive.min()) if positive.size else found.rtol / 100
    low = math.floor(math.log10(max(min(least, found.rtol / 10 or 1.0), _LEAST_ERROR)))
    high = max(math.ceil(math.log10(largest) + 1e-9), low + 1)
    up = _Axis(low, high, _BOTTOM, _LOWER)
    for power in range(low, high + 1, max(1, (high - low) // 6)):
        picture.tick(up, power, f"1e{power}")
    picture.text(_LEFT, _LOWER - 24, "relative error; red: the tolerance")
    if found.rtol > 0:
        y = up.pixel(math.log10(found.rtol))
        picture.line([(_LEFT, y), (_RIGHT, y)], _COLOR_MARK)
    logs = np.where(
        np.isfinite(found.errors), np.log10(np.maximum(found.errors, 10.0**low)), np.nan
    )
    picture.curve(steps, logs, up, _COLOR_ERROR, 3)


def polylines(x: Curve, y: Curve) -> list[list[tuple[float, float]]]:
    """The runs of finite points; of many points, the extremes of each column."""
    kept = thinned(x, y, _MAX_POINTS)
    pieces: list[list[tuple[float, float]]] = [[]]
    for place, value in zip(x[kept].tolist(), y[kept].tolist(), strict=True):
        if math.isfinite(value):
            pieces[-1].append((place, value))
        elif pieces[-1]:
            pieces.append([])
    return [piece if len(piece) > 1 else [piece[0], piece[0]] for piece in pieces if piece]


def thinned(x: Curve, y: Curve, most: int) -> list[int]:
    """Indices of the points to draw: all, or each column's extremes and first gap."""
    if len(x) <= most:
        return list(range(len(x)))
    kept: set[int] = set()
    for part in np.array_split(np.arange(len(x)), most // 2):
        finite = part[np.isfinite(y[part])]
        if finite.size:
            kept |= {int(finite[np.argmin(y[finite])]), int(finite[np.argmax(y[finite])])}
        if finite.size < part.size:
            kept.add(int(part[~np.isfinite(y[part])][0]))
    return sorted(kept)


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
