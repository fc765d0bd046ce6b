"""A tensor as HTML: a line of statistics, a histogram, a heat map, NaN and Inf marked."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sonde.core.statistics import Statistics, describe, type_text
from sonde.core.text.html_text import COLOURS, code, folded, framed, line
from sonde.core.text.number_text import number_text
from sonde.display.heat_map import MARK_COLOURS, heat_map, plane_of
from sonde.kernels.histogram import histogram

MOST_PICTURED: Final = 1 << 26
"""Elements of a tensor of which pictures are drawn; of a larger one only the numbers are shown."""
_BINS: Final = 40
_HEIGHT: Final = 70
_BAR: Final = 6


def tensor_html(
    values: NDArray[Any] | None,
    statistics: Statistics | None,
    *,
    dtype: str,
    shape: Sequence[int],
    name: str = "",
    printed: str = "",
) -> str:
    """The HTML of a tensor. ``values`` None: the values are not known, only ``statistics``, or not
    even these. ``printed``: the tensor as Python prints it, shown on a click."""
    text = type_text(dtype, shape)
    if statistics is not None:
        text = describe(statistics, dtype, shape)
    parts = [line(name, bold=True)] if name else []
    is_bad = statistics is not None and statistics.non_finite_count > 0
    parts.append(line(text, colour=COLOURS["error"] if is_bad else ""))
    if values is not None and statistics is not None and 1 < values.size <= MOST_PICTURED:
        parts += [_pictures(values, statistics)]
    if printed:
        parts.append(folded("values", code(printed)))
    return framed(*parts, colour=COLOURS["error"] if is_bad else "#808080")


def _pictures(values: NDArray[Any], statistics: Statistics) -> str:
    bars = histogram(values, statistics, _BINS)
    height, width = plane_of(values).shape
    sides = [_side(heat_map(values), f"{height:,} x {width:,}{_legend(statistics)}")]
    if bars is not None:
        edges, counts = bars
        ends = f"{number_text(edges[0])} to {number_text(edges[-1])}"
        sides.append(_side(_histogram(counts), escape(f"{ends}, most {max(counts):,} in a bin")))
    return f'<div style="display:flex;flex-wrap:wrap;gap:6px 24px">{"".join(sides)}</div>'


def _side(picture: str, caption: str) -> str:
    return f'<div>{picture}<div style="opacity:.7;font-size:12px">{caption}</div></div>'


def _legend(statistics: Statistics) -> str:
    """The colours of NaN and infinities, if there are any."""
    found = {
        "nan": statistics.nan_count,
        "+inf": statistics.positive_inf_count,
        "-inf": statistics.negative_inf_count,
    }
    return "".join(
        f' · <span style="background:rgb{MARK_COLOURS[name][1]};display:inline-block;width:10px;'
        f'height:10px"></span> {count:,} {name}'
        for name, count in found.items()
        if count
    )


def _histogram(counts: Sequence[int]) -> str:
    """Bars of ``counts``; a bin that is not empty is at least one pixel high."""
    heights = np.asarray(counts) / max(counts) * _HEIGHT
    bars = "".join(
        f"M{place * _BAR} {_HEIGHT}v-{max(1.0, round(float(height), 1)):g}h{_BAR - 1}V{_HEIGHT}z"
        for place, height in enumerate(heights)
        if counts[place]
    )
    width = len(counts) * _BAR
    return (
        f'<svg width="{width}" height="{_HEIGHT + 1}" role="img" aria-label="histogram" '
        f'style="margin:2px 0"><path d="{bars}" fill="{COLOURS["info"]}"/>'
        f'<path d="M0 {_HEIGHT + 0.5}h{width}" stroke="currentColor" opacity=".5"/></svg>'
    )
