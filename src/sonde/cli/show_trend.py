"""``sonde show DIR --trend``: a statistic of every layer over the steps, as sparklines."""

from __future__ import annotations

import sys
from math import isfinite, log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from sonde.cli.show_text import Page
from sonde.core.errors import UsageError
from sonde.core.text.number_text import count_text, number_text
from sonde.trends.change import LayerTrend, run_trends
from sonde.trends.database import TrendDatabase
from sonde.trends.views import LAYER_STATISTICS

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 40
_DEFAULT_LIMIT = 40


def trend_json(directory: Path, statistic: str, rank: int | None) -> dict[str, Any]:
    """The trend of every layer, the greatest change first."""
    steps, _, trends = _trends(directory, statistic, rank)
    return {
        "path": str(directory),
        "statistic": statistic,
        "steps": steps.tolist(),
        "layers": [
            {
                "layer": each.layer,
                "first": each.first,
                "last": each.last,
                "factor": each.factor,
                "not_finite_since": each.turned,
                "values": each.values.tolist(),
            }
            for each in trends
        ],
    }


def print_trend(directory: Path, statistic: str, rank: int | None, limit: int | None) -> None:
    """Print a line for each layer, the greatest change first, at most ``limit`` (0: all)."""
    steps, last, trends = _trends(directory, statistic, rank)
    console = Page.on(sys.stdout).console
    if not trends:
        needs = LAYER_STATISTICS[statistic].needs
        raise UsageError(
            f"{directory} has no values of {statistic}; sonde run {needs} records them in the "
            "steps of a training",
            slug="no-statistic",
        )
    console.print(f"{statistic}: {LAYER_STATISTICS[statistic].description}", soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("layer", overflow="fold")
    table.add_column(f"steps {steps[0]} to {last}", no_wrap=True)
    for title in ("first", "last", "change"):
        table.add_column(title, justify="right", no_wrap=True)
    number = _DEFAULT_LIMIT if limit is None else limit or len(trends)
    for each in trends[:number]:
        table.add_row(
            each.layer,
            sparkline(each.values, each.is_known),
            number_text(each.first, 3),
            number_text(each.last, 3),
            _change(each),
        )
    console.print(table)
    if len(trends) > number:
        console.print(f"and {count_text(len(trends) - number, 'more layer')}; --limit 0: all")


def _trends(
    directory: Path, statistic: str, rank: int | None
) -> tuple[NDArray[np.int64], int, list[LayerTrend]]:
    """The first step of each column, the last step of all, and the trends."""
    database = TrendDatabase(directory)
    if rank is not None and rank not in database.ranks:
        there = ", ".join(map(str, database.ranks))
        raise UsageError(f"{directory} has no rank {rank}; there are {there}", slug="no-such-rank")
    chosen = database.ranks[0] if rank is None else rank
    matrix, trends = run_trends(database, statistic, columns=_WIDTH, rank=chosen)
    return matrix.steps, database.steps()[1], trends


def sparkline(values: NDArray[np.float64], is_known: NDArray[np.bool_] | None = None) -> str:
    """A bar for each value, on a scale of its own; on a logarithmic one where the values, all
    positive, span more than a factor of 100. ``!`` is NaN or Inf, a blank has no value."""
    known = np.ones(values.shape, np.bool_) if is_known is None else is_known
    finite = values[known & np.isfinite(values)]
    low, high, is_wide = 0.0, 0.0, False
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        is_wide = low > 0 and high / low > 100
    if is_wide:
        low, high = log(low), log(high)
    found = []
    for value, is_there in zip(values.tolist(), known.tolist(), strict=True):
        if not is_there:
            found.append(" ")
        elif not isfinite(value):
            found.append("!")
        else:
            found.append(_bar(log(value) if is_wide else value, low, high))
    return "".join(found)


def _bar(value: float, low: float, high: float) -> str:
    share = (value - low) / (high - low) if high > low else 0.0
    return _BARS[min(int(share * len(_BARS)), len(_BARS) - 1)]


def _change(trend: LayerTrend) -> str:
    if trend.turned is not None:
        return f"not finite since step {trend.turned}"
    if trend.factor != trend.factor:
        return ""
    if 0.995 < trend.factor < 1.005:
        return "none"
    return f"× {number_text(trend.factor, 3)}"
