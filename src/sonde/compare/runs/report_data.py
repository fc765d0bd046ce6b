"""A comparison as plain data: the JSON document and the rows of the CSV file.

JSON has no NaN: a number that is not finite is the text "NaN", "Infinity" or "-Infinity".
"""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict
from typing import Any

from sonde.compare.runs.result import (
    ComparedTensor,
    DivergenceStart,
    OpPair,
    RunComparison,
    TensorPair,
    Unpaired,
)
from sonde.core.graph import Source
from sonde.core.number_text import json_value
from sonde.kernels.distances import Distances

DISTANCE_NAMES = (
    "max_abs_error",
    "mean_abs_error",
    "max_relative_error",
    "mean_relative_error",
    "cosine",
    "relative_l2",
    "max_ulp",
)
CSV_COLUMNS = (
    "step",
    "rank",
    "order",
    "status",
    "phase",
    "kind",
    "how",
    "a",
    "b",
    "type_a",
    "type_b",
    "tensor_a",
    "tensor_b",
    "dtype_a",
    "dtype_b",
    "shape_a",
    "shape_b",
    "layout",
    "error",
    "input_error",
    "tolerance",
    "allowed",
    *DISTANCE_NAMES,
    "within_1_permille",
    "within_5_permille",
    "nan_agreed",
    "inf_agreed",
    "non_finite_disagreed",
    "count",
    "source_a",
    "source_b",
    "notes",
)


def json_text(comparison: RunComparison) -> str:
    return json.dumps(document(comparison), indent=1, allow_nan=False) + "\n"


def incomparable_text(error: str) -> str:
    """The document of two runs that could not be compared at all."""
    empty: dict[str, Any] = {"first_divergence": None, "pairs": [], "unpaired": []}
    return json.dumps({"verdict": "incomparable", **empty, "error": error}, indent=1) + "\n"


def document(comparison: RunComparison) -> dict[str, Any]:
    """The whole comparison; see ``docs/compare.md`` for its keys."""
    found = {
        "verdict": comparison.verdict,
        "first_divergence": _divergence(comparison.first_divergence),
        "reasons": list(comparison.reasons),
        "notes": list(comparison.notes),
        "by": comparison.by,
        "a": asdict(comparison.a),
        "b": asdict(comparison.b),
        "steps": list(comparison.steps),
        "losses": [asdict(loss) for loss in comparison.losses],
        "growth": [asdict(growth) for growth in comparison.growth],
        "parts": [asdict(part) for part in comparison.parts],
        "pairs": [_pair(pair) for pair in comparison.pairs],
        "unpaired": [_unpaired(each) for each in comparison.unpaired],
    }
    finite: dict[str, Any] = json_value(found)
    return finite


def _divergence(found: DivergenceStart | None) -> dict[str, Any] | None:
    if found is None:
        return None
    pair = found.pair
    return {
        "step": pair.step,
        "rank": pair.rank,
        "a": pair.a,
        "b": pair.b,
        "source_a": _source(pair.source_a),
        "source_b": _source(pair.source_b),
        "cause": found.cause,
        "confidence": found.confidence,
        "type_a": pair.type_a,
        "type_b": pair.type_b,
        "phase": pair.phase,
        "tensor_a": str(found.tensor.a),
        "tensor_b": str(found.tensor.b),
        "error": found.tensor.error,
        "tolerance": pair.tolerance,
        "allowed": pair.allowed,
        "input_error": pair.input_error,
        "distances": _distances(found.tensor.distances),
        "inheritors": found.inheritors,
        "order": pair.order,
    }


def _pair(pair: OpPair) -> dict[str, Any]:
    return {
        "step": pair.step,
        "rank": pair.rank,
        "order": pair.order,
        "a": pair.a,
        "b": pair.b,
        "status": pair.status,
        "error": pair.error,
        "input_error": pair.input_error,
        "tolerance": pair.tolerance,
        "allowed": pair.allowed,
        "type_a": pair.type_a,
        "type_b": pair.type_b,
        "kind": pair.kind,
        "phase": pair.phase,
        "how": pair.how,
        "members_a": list(pair.members_a),
        "members_b": list(pair.members_b),
        "source_a": _source(pair.source_a),
        "source_b": _source(pair.source_b),
        "reads": list(pair.reads),
        "notes": list(pair.notes),
        "tensors": [_tensor(tensor) for tensor in pair.tensors],
    }


def _tensor(tensor: TensorPair) -> dict[str, Any]:
    return {
        "a": _name(tensor.a),
        "b": _name(tensor.b),
        "error": tensor.error,
        "by": tensor.by,
        "layout": tensor.layout,
        "problem": tensor.problem,
        "distances": _distances(tensor.distances),
    }


def _name(name: ComparedTensor) -> dict[str, Any]:
    return {
        "op": name.op,
        "io": name.io,
        "slot": name.slot,
        "dtype": name.dtype,
        "shape": list(name.shape),
        "parameter": name.parameter,
    }


def _distances(found: Distances | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        **{name: getattr(found, name) for name in DISTANCE_NAMES},
        "within_1_permille": _share(found.within_1, found.finite_count),
        "within_5_permille": _share(found.within_5, found.finite_count),
        "count": found.count,
        "equal_count": found.equal_count,
        "nan_agreed": found.nan_agreed,
        "inf_agreed": found.inf_agreed,
        "non_finite_disagreed": found.non_finite_disagreed,
    }


def _share(part: int, whole: int) -> float:
    """The share of finite pairs; NaN of none."""
    return part / whole if whole else math.nan


def _unpaired(each: Unpaired) -> dict[str, Any]:
    return {
        "step": each.step,
        "rank": each.rank,
        "side": each.side,
        "op": each.name,
        "type": each.type,
        "phase": each.phase,
        "source": _source(each.source),
        "reason": each.reason,
    }


def _source(source: Source | None) -> dict[str, Any] | None:
    return None if source is None else asdict(source)


def csv_text(comparison: RunComparison) -> str:
    """A row for each pair of tensors; pairs without any have one row, unpaired ops too."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for pair in comparison.pairs:
        for tensor in pair.tensors or (None,):
            writer.writerow(_row(pair, tensor))
    for each in comparison.unpaired:
        writer.writerow(
            {
                "step": each.step,
                "rank": each.rank,
                "status": "unpaired",
                "phase": each.phase,
                each.side: each.name,
                f"type_{each.side}": each.type,
                f"source_{each.side}": "" if each.source is None else str(each.source),
                "notes": each.reason,
            }
        )
    return out.getvalue()


def _row(pair: OpPair, tensor: TensorPair | None) -> dict[str, Any]:
    names = ("step", "rank", "order", "status", "phase", "kind", "how", "a", "b")
    more = ("type_a", "type_b", "error", "input_error", "tolerance", "allowed")
    row: dict[str, Any] = {name: getattr(pair, name) for name in (*names, *more)}
    row["source_a"] = "" if pair.source_a is None else str(pair.source_a)
    row["source_b"] = "" if pair.source_b is None else str(pair.source_b)
    row["notes"] = "; ".join(pair.notes)
    if tensor is not None:
        row |= {
            "tensor_a": str(tensor.a),
            "tensor_b": str(tensor.b),
            "dtype_a": tensor.a.dtype,
            "dtype_b": tensor.b.dtype,
            "shape_a": list(tensor.a.shape),
            "shape_b": list(tensor.b.shape),
            "layout": tensor.layout or "",
            "error": tensor.error,
        }
        distances = _distances(tensor.distances) or {}
        row |= {name: value for name, value in distances.items() if name in CSV_COLUMNS}
    return row
