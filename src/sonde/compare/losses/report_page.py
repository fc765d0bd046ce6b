"""A comparison of losses as data for ``--json``, and as an HTML page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sonde.compare.losses.compare import LossComparison
from sonde.compare.losses.findings import divergence, headline, reasoning
from sonde.core.text.number_text import json_value
from sonde.report import page
from sonde.report.thinning import thinned

_TABLE_ROWS = 500
_CHART_POINTS = 20_000


def summary_json(found: LossComparison) -> dict[str, Any]:
    """Everything except the single steps."""
    first = divergence(found)
    return {
        "a": found.a.origin,
        "b": found.b.origin,
        "verdict": found.verdict,
        "status": None if first is None else first.status,
        "aligned": found.is_aligned,
        "rtol": found.rtol,
        "atol": found.atol,
        "by": found.by,
        "headline": headline(found),
        "reasoning": list(reasoning(found)),
        "notes": list(found.notes),
        "first_out_of_tolerance": None if first is None else first.evidence,
        "out_of_tolerance": int(found.out.sum()),
        "max_relative_error": float(found.errors.max()),
        "drift": asdict(found.drift),
        "first_not_finite": {"a": found.first_bad_a, "b": found.first_bad_b},
    }


def comparison_json(found: LossComparison) -> dict[str, Any]:
    """Everything, step by step; `write_json` writes numbers that are not finite as texts."""
    return {**summary_json(found), "steps": [_point(found, k) for k in range(len(found.steps))]}


def loss_page(found: LossComparison) -> str:
    """One self-contained page: the result, its explanation, the curves and the numbers."""
    title, places = "All steps", list(range(len(found.steps)))
    if len(places) > _TABLE_ROWS:
        worst = found.errors.argsort()[::-1][:_TABLE_ROWS]
        title, places = f"The {_TABLE_ROWS} steps with the largest errors", sorted(worst.tolist())
    curves = {"values_a": found.values_a, "values_b": found.values_b, "errors": found.errors}
    # If there are too many points: those that matter to any of the three curves.
    kept = sorted({k for values in curves.values() for k in thinned(values, _CHART_POINTS)})
    data = {
        **summary_json(found),
        "steps": [found.steps[k] for k in kept],
        **{name: json_value(values[kept].tolist()) for name, values in curves.items()},
        "table_title": title,
        "table": json_value([_point(found, k) for k in places]),
    }
    return page("losses", "Two loss curves", data)


def _point(found: LossComparison, k: int) -> dict[str, Any]:
    return {
        "step": found.steps[k],
        "a": float(found.values_a[k]),
        "b": float(found.values_b[k]),
        "relative_error": float(found.errors[k]),
        "out": bool(found.out[k]),
    }
