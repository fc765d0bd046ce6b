"""A comparison as one self-contained page: the path to the first divergence, plots, tables."""

from __future__ import annotations

from typing import Any

from sonde.compare.runs.kinds import is_plumbing
from sonde.compare.runs.report_data import document
from sonde.compare.runs.result import OpPair, RunComparison
from sonde.report import page


def page_text(comparison: RunComparison) -> str:
    """The page; it loads nothing from anywhere."""
    data = document(comparison)
    data["pairs"] = [
        _pair(pair, plain) for pair, plain in zip(comparison.pairs, data["pairs"], strict=True)
    ]
    return page("comparison", f"sonde compare: {comparison.verdict}", data)


def _pair(pair: OpPair, plain: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of a pair: the distances of its worst tensor only."""
    worst: dict[str, Any] = max(
        plain["tensors"], key=lambda each: each["error"] == plain["error"], default={}
    )
    return {
        **plain,
        "distances": worst.get("distances"),
        "is_plumbing": is_plumbing(pair.type_a) and pair.status != "diverged",
        "tensors": [
            {name: value for name, value in tensor.items() if name != "distances"}
            for tensor in plain["tensors"]
        ],
    }
