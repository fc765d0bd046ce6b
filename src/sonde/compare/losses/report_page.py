"""A comparison of losses as plain data, for ``--json``, and as a page."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.compare.losses.advice import headline, reasoning
from sonde.compare.losses.compare import LossComparison
from sonde.compare.losses.picture import thinned
from sonde.report import page

_TABLE_ROWS = 500
_CHART_POINTS = 20_000


def summary_json(found: LossComparison) -> dict[str, Any]:
    """Everything but the single steps."""
    first = found.first_out
    return {
        "a": found.a.origin,
        "b": found.b.origin,
        "verdict": found.verdict,
        "aligned": found.is_aligned,
        "rtol": found.rtol,
        "atol": found.atol,
        "by": found.by,
        "headline": headline(found),
        "reasoning": list(reasoning(found)),
        "notes": list(found.notes),
        "first_out_of_tolerance": None
        if first is None
        else {
            "step": found.steps[first],
            "a": float(found.values_a[first]),
            "b": float(found.values_b[first]),
            "relative_error": float(found.errors[first]),
        },
        "out_of_tolerance": int(found.out.sum()),
        "max_relative_error": float(found.errors.max()),
        "drift": {
            "early": found.drift.early,
            "late": found.drift.late,
            "per_100_steps": found.drift.per_100_steps,
            "bias": found.drift.bias,
        },
        "first_not_finite": {"a": found.first_bad_a, "b": found.first_bad_b},
    }


def comparison_json(found: LossComparison) -> dict[str, Any]:
    """Everything, step by step; `write_json` writes numbers that are not finite as texts."""
    return {**summary_json(found), "steps": [_point(found, k) for k in range(len(found.steps))]}


def loss_page(found: LossComparison) -> str:
    """One self-contained page: the result, what it means, the curves and the numbers."""
    title, rows = _table(found)
    steps = np.array(found.steps, np.float64)
    # The points that matter to any of the three curves, where there are too many for all.
    kept = sorted(
        {
            index
            for values in (found.values_a, found.values_b, found.errors)
            for index in thinned(steps, values, _CHART_POINTS)
        }
    )
    data = {
        **summary_json(found),
        "steps": [found.steps[k] for k in kept],
        "values_a": _texts(found.values_a[kept]),
        "values_b": _texts(found.values_b[kept]),
        "errors": _texts(found.errors[kept]),
        "table_title": title,
        "table": rows,
    }
    return page("losses", "Two loss curves", data)


def _table(found: LossComparison) -> tuple[str, list[dict[str, Any]]]:
    """The steps with the largest errors where there are too many for all."""
    title, places = "All steps", list(range(len(found.steps)))
    if len(places) > _TABLE_ROWS:
        worst = found.errors.argsort()[::-1][:_TABLE_ROWS]
        title, places = f"The {_TABLE_ROWS} steps with the largest errors", sorted(worst.tolist())
    points = [_point(found, k) for k in places]
    return title, [
        {**point, **{name: _text(point[name]) for name in ("a", "b", "relative_error")}}
        for point in points
    ]


def _point(found: LossComparison, k: int) -> dict[str, Any]:
    return {
        "step": found.steps[k],
        "a": float(found.values_a[k]),
        "b": float(found.values_b[k]),
        "relative_error": float(found.errors[k]),
        "out": bool(found.out[k]),
    }


def _texts(values: NDArray[np.float64]) -> list[float | str]:
    return [_text(value) for value in values.tolist()]


def _text(value: float) -> float | str:
    """The number, or the text "NaN", "Infinity" or "-Infinity": JSON has none of them."""
    if np.isfinite(value):
        return value
    return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
