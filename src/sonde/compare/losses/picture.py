"""Draws a comparison of losses as a PNG, with matplotlib.

At the top the two curves, below them their relative error on a logarithmic scale with the
tolerance. Points that are not finite leave gaps.
"""

from __future__ import annotations

import io
import warnings
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.compare.losses.compare import LossComparison
from sonde.core.errors import UsageError

WIDTH, HEIGHT = 1920, 1240
_DPI = 160
_COLOR_A, _COLOR_B, _COLOR_ERROR, _COLOR_MARK = "#1f77b4", "#e8730c", "#555555", "#c8102e"
_LONGEST_ORIGIN = 48
_LEAST_ERROR = 1e-9
"""Smaller relative errors are drawn at the lower edge."""

Curve = NDArray[np.float64]


def to_png(found: LossComparison, title: str) -> bytes:
    """The picture as a PNG file; UsageError if matplotlib is not installed."""
    try:
        figures, canvases, style = (
            import_module(f"matplotlib.{name}")
            for name in ("figure", "backends.backend_agg", "style")
        )
    except ImportError:
        raise UsageError(
            "--png needs matplotlib: pip install 'sonde[png]' (--html does not)",
            slug="extra-missing",
        ) from None
    stream = io.BytesIO()
    with style.context("default"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a letter of a path without a font
        # A figure with its own canvas: pyplot would keep it, and choose a window system.
        figure = figures.Figure((WIDTH / _DPI, HEIGHT / _DPI), dpi=_DPI, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
        canvas = canvases.FigureCanvasAgg(figure)
        losses, errors = figure.subplots(2, sharex=True, height_ratios=(2, 1))
        figure.suptitle(title, parse_math=False)
        _draw_losses(losses, found)
        _draw_errors(errors, found)
        canvas.print_png(stream)
    return stream.getvalue()


def _draw_losses(axes: Any, found: LossComparison) -> None:
    for values, origin, color, width in (
        (found.values_a, f"a: {found.a.origin}", _COLOR_A, 2.2),
        (found.values_b, f"b: {found.b.origin}", _COLOR_B, 1.3),
    ):
        is_long = len(origin) > _LONGEST_ORIGIN
        label = f"{origin[:3]}...{origin[6 - _LONGEST_ORIGIN :]}" if is_long else origin
        _draw(axes, found, values, color, linewidth=width, label=label)
    if found.first_out is not None:
        step = found.steps[found.first_out]
        label = f"first out of tolerance: step {step}"
        axes.axvline(step, color=_COLOR_MARK, linewidth=1, label=label)
    legend = axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a $ in a path is not mathematics
    axes.set_ylabel("loss")
    axes.grid(alpha=0.3)


def _draw_errors(axes: Any, found: LossComparison) -> None:
    positive = found.errors[np.isfinite(found.errors) & (found.errors > 0)]
    least = max(min([*positive, found.rtol / 100 or 1.0]), _LEAST_ERROR)
    errors = np.where(np.isfinite(found.errors), np.maximum(found.errors, least), np.nan)
    _draw(axes, found, errors, _COLOR_ERROR, linewidth=1.3)
    largest = max([*positive, found.rtol, 10 * least])
    axes.set_ylim(least, largest * (largest / least) ** 0.2)  # room for the word at the tolerance
    axes.set_yscale("log")
    if found.rtol > 0:
        axes.axhline(found.rtol, color=_COLOR_MARK, linewidth=1, linestyle="--")
        axes.annotate(
            "tolerance",
            (1, found.rtol),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 3),
            textcoords="offset points",
            ha="right",
            color=_COLOR_MARK,
        )
    if found.first_out is not None:
        axes.axvline(found.steps[found.first_out], color=_COLOR_MARK, linewidth=1)
    axes.set(xlabel="step", ylabel="relative error")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)


def _draw(axes: Any, found: LossComparison, values: Curve, color: str, **style: Any) -> None:
    """A curve with gaps where it is not finite; a point between two gaps is drawn as a dot."""
    shown = np.where(np.isfinite(values), values, np.nan)
    axes.plot(found.steps, shown, color=color, **style)
    gaps = np.isnan(np.concatenate([[np.nan], shown, [np.nan]]))
    alone = ~gaps[1:-1] & gaps[:-2] & gaps[2:]
    axes.plot(np.array(found.steps)[alone], shown[alone], ".", color=color, markersize=9)
