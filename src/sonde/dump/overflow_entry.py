"""One op of ``overflow.json``: what it did with non-finite values, and its tensors in numbers."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from sonde.core.graph import OpNode, Source
from sonde.core.sink import OpCall, TensorView
from sonde.dump.overflow_origin import Origin

FILLING: Final = frozenset(
    (
        *("fill", "fill_", "full", "full_like", "new_full", "scalar_tensor", "fill_diagonal_"),
        *("masked_fill", "masked_fill_", "index_fill", "index_fill_", "scatter", "scatter_"),
        *("where", "constant_pad_nd", "nan_to_num", "nan_to_num_"),
    )
)
"""Ops that write an argument as it is. Others compute with it: NaN that comes of it is a fault."""


def overflow_entry(call: OpCall, origin: Origin, *, is_producer: bool) -> dict[str, Any]:
    """The entry of ``call``, whose non-finite values come from ``origin``; valid JSON."""
    entry: dict[str, Any] = {
        "op": call.node.name,
        "role": "producer" if is_producer else "carrier",
        "phase": call.node.phase,
        "source": source_entry(call.node.source),
        "inputs": [_statistics(view) for view in call.inputs],
        "outputs": [_statistics(view) for view in call.outputs],
        "from": None if is_producer else origin.op,
    }
    if origin.step != call.step and not is_producer:
        entry["from_step"] = origin.step
    if is_producer and origin.asked is not None:
        entry["by_argument"] = origin.asked
    return entry


def source_entry(source: Source | None) -> dict[str, Any] | None:
    if source is None:
        return None
    return {
        "file": source.file,
        "line": source.line,
        "function": source.function,
        "code": source.code,
    }


def infinite_argument(call: OpCall) -> str | None:
    """``value=-inf`` when the op was told to write infinities."""
    for name, text in call.attributes:
        if text.removeprefix("-") in ("inf", "nan"):
            return f"{name}={text}"
    return None


def has_nan(view: TensorView) -> bool:
    """Whether any element is NaN; for complex values in either part."""
    if view.problem is not None:
        stored = view.stored()
        return stored is not None and has_nan(stored)
    if view.dtype.startswith("complex"):
        return bool(np.isnan(view.numpy()).any())
    return view.statistics().nan_count > 0


def producer_of(node: OpNode, slot: int) -> str | None:
    """Who made input ``slot`` of ``node``, as far as the graph knows."""
    return node.inputs[slot].producer if slot < len(node.inputs) else None


def _statistics(view: TensorView) -> dict[str, Any]:
    """Shape, dtype and summary numbers; what JSON has no number for is text.

    Memory that nobody has filled yet has no numbers. Of complex values only the counts: an element
    is NaN if either part is, else infinite (counted as positive) if either part is.
    """
    found: dict[str, Any] = {
        "slot": view.slot,
        "dtype": view.dtype,
        "shape": list(view.shape),
        "nan_count": 0,
        "positive_inf_count": 0,
        "negative_inf_count": 0,
    }
    if not view.is_filled:
        found["uninitialised"] = True
    elif view.problem is not None:
        found["problem"] = view.problem
    elif view.dtype.startswith("complex"):
        values = view.numpy()
        found["nan_count"] = int(np.isnan(values).sum())
        found["positive_inf_count"] = int((np.isinf(values) & ~np.isnan(values)).sum())
    else:
        statistics = view.statistics()
        found["nan_count"] = statistics.nan_count
        found["positive_inf_count"] = statistics.positive_inf_count
        found["negative_inf_count"] = statistics.negative_inf_count
        for name in ("max", "min", "avg", "l2norm", "finite_max", "finite_min"):
            found[name] = _number(getattr(statistics, name))
    return found


def _number(value: float | int) -> float | int | str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
