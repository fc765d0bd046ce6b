"""A comparison as a JSON document, as rows of a CSV file, and as an HTML page.

JSON has no NaN: a number that is not finite is the text "NaN", "Infinity" or "-Infinity".
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import fields
from typing import Any, Final

import msgspec

from sonde.compare.runs.result import DivergenceStart, OpPair, RunComparison, TensorPair, Unpaired
from sonde.core.operators.kinds import is_plumbing
from sonde.core.text.number_text import json_value
from sonde.kernels.distances import Distances
from sonde.report import page

_DISTANCES: Final = (
    *("max_abs_error", "mean_abs_error", "max_relative_error", "mean_relative_error"),
    *("cosine", "relative_l2", "max_ulp"),
)
_CSV_COLUMNS: Final = (
    *("step", "rank", "order", "status", "phase", "kind", "how", "a", "b", "type_a", "type_b"),
    *("tensor_a", "tensor_b", "dtype_a", "dtype_b", "shape_a", "shape_b", "layout"),
    *("error", "input_error", "tolerance", "allowed", *_DISTANCES),
    *("within_1_permille", "within_5_permille", "nan_agreed", "inf_agreed"),
    *("non_finite_disagreed", "count", "source_a", "source_b", "notes"),
)
_OF_DIVERGENCE: Final = (
    *("step", "rank", "order", "a", "b", "type_a", "type_b", "phase", "source_a", "source_b"),
    *("tolerance", "allowed", "input_error", "ranks"),
)


def incomparable(error: str) -> dict[str, Any]:
    """The document of two runs that could not be compared at all."""
    empty: dict[str, Any] = {"first_divergence": None, "pairs": [], "unpaired": []}
    return {"verdict": "incomparable", **empty, "error": error}


def document(comparison: RunComparison) -> dict[str, Any]:
    """The whole comparison; see ``docs/compare.md`` for its keys."""
    found = {
        **_fields(comparison, without=("mixed",)),
        "first_divergence": _divergence(comparison.first_divergence),
        "pairs": [_pair(pair) for pair in comparison.pairs],
        "unpaired": [_unpaired(each) for each in comparison.unpaired],
    }
    plain: dict[str, Any] = json_value(msgspec.to_builtins(found))
    return plain


def page_text(comparison: RunComparison) -> str:
    """One self-contained HTML page."""
    data = document(comparison)
    for pair, shown in zip(comparison.pairs, data["pairs"], strict=True):
        worst: dict[str, Any] = max(
            shown["tensors"], key=lambda each: each["error"] == shown["error"], default={}
        )
        shown["distances"] = worst.get("distances")
        shown["is_plumbing"] = is_plumbing(pair.type_a) and pair.status != "diverged"
        for tensor in shown["tensors"]:
            del tensor["distances"]
    return page("comparison", f"sonde compare: {comparison.verdict}", data)


def _fields(value: Any, *, without: tuple[str, ...]) -> dict[str, Any]:
    names = (field.name for field in fields(value))
    return {name: getattr(value, name) for name in names if name not in without}


def _divergence(found: DivergenceStart | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        **{name: getattr(found.pair, name) for name in _OF_DIVERGENCE},
        "cause": found.cause,
        "confidence": found.confidence,
        "rule": found.finding.rule,
        "status": found.finding.status,
        "advice": found.finding.advice,
        "tensor_a": str(found.tensor.a),
        "tensor_b": str(found.tensor.b),
        "error": found.tensor.error,
        "distances": _distances(found.tensor.distances),
        "inheritors": found.inheritors,
    }


def _pair(pair: OpPair) -> dict[str, Any]:
    tensors = [
        {
            **_fields(tensor, without=("problem_kind",)),
            "distances": _distances(tensor.distances),
        }
        for tensor in pair.tensors
    ]
    return {**_fields(pair, without=("scope",)), "tensors": tensors}


def _distances(found: Distances | None) -> dict[str, Any] | None:
    if found is None:
        return None
    finite = found.finite_count
    return {
        **{name: getattr(found, name) for name in _DISTANCES},
        "within_1_permille": found.within_1 / finite if finite else math.nan,
        "within_5_permille": found.within_5 / finite if finite else math.nan,
        "count": found.count,
        "equal_count": found.equal_count,
        "nan_agreed": found.nan_agreed,
        "inf_agreed": found.inf_agreed,
        "non_finite_disagreed": found.non_finite_disagreed,
    }


def _unpaired(each: Unpaired) -> dict[str, Any]:
    return {"op": each.name, **_fields(each, without=("name", "role"))}


def csv_text(comparison: RunComparison) -> str:
    """A row for each pair of tensors; one for a pair of ops without tensors and an unpaired op."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for pair in comparison.pairs:
        row = {**_fields(pair, without=("tensors", "fault")), "notes": "; ".join(pair.notes)}
        for tensor in pair.tensors or (None,):
            writer.writerow({**row, **_tensor_columns(tensor)})
    for each in comparison.unpaired:
        writer.writerow(
            {
                "step": each.step,
                "rank": each.rank,
                "status": "unpaired",
                "phase": each.phase,
                each.side: each.name,
                f"type_{each.side}": each.type,
                f"source_{each.side}": each.source,
                "notes": each.reason,
            }
        )
    return out.getvalue()


def _tensor_columns(tensor: TensorPair | None) -> dict[str, Any]:
    if tensor is None:
        return {}
    return {
        "tensor_a": tensor.a,
        "tensor_b": tensor.b,
        "dtype_a": tensor.a.dtype,
        "dtype_b": tensor.b.dtype,
        "shape_a": list(tensor.a.shape),
        "shape_b": list(tensor.b.shape),
        "layout": tensor.layout,
        "error": tensor.error,
        **(_distances(tensor.distances) or {}),
    }
