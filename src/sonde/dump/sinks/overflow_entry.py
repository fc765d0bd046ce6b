"""One op of ``overflow.json``: what it did with non-finite values, and its tensors in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sonde.core.graph import Source
from sonde.core.number_text import json_number
from sonde.core.sink import OpCall, TensorView
from sonde.watch.origins import Origin


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
    if is_producer and origin.argument is not None:
        entry["by_argument"] = origin.argument
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
            found[name] = json_number(getattr(statistics, name))
    return found
