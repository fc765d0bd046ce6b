"""What a dump tells of an op besides its outputs: its arguments, and what it divided by."""

from __future__ import annotations

import numpy as np

from sonde.compare.runs.run_side import RunSide, SideOp
from sonde.compare.runs.tensor_pairs import PairDraft
from sonde.core.errors import DumpError


def differing_attributes(draft: PairDraft) -> list[str]:
    """Arguments that differ between ops of one type, other than dtypes, devices, layouts and the
    names of other ops."""
    if draft.a.type != draft.b.type:
        return []
    left, right = dict(draft.a.attributes), dict(draft.b.attributes)
    ignored = {"dtype", "device", "layout", "memory_format", "pin_memory", "forward"}
    return [
        name
        for name in {**left, **right}
        if left.get(name) != right.get(name)
        and name not in ignored
        and name == name.lower()  # MindSpore's own marks are not.
        and not name.endswith("_names")
    ]


def describe_attributes(draft: PairDraft) -> list[str]:
    left, right = dict(draft.a.attributes), dict(draft.b.attributes)
    return [
        f"{name} is {left.get(name, 'not given')} in a and {right.get(name, 'not given')} in b"
        for name in differing_attributes(draft)
    ]


def inverse_deviation(op: SideOp, side: RunSide) -> float | None:
    """The mean of 1/std as the op saved it; of a backward op, as it read it."""
    if op.type.startswith("native_") and op.type.endswith("_backward"):
        slot = 6 if "batch" in op.type else 3 if "layer" in op.type else -1
        record = side.record(op.name, "input", slot)
    elif op.type in ("native_batch_norm", "native_layer_norm", "native_group_norm"):
        record = side.record(op.name, "output", 2)
    else:
        return None
    if record is None or record.path is None:
        return None
    try:
        values = np.asarray(record.numpy(), np.float64)
    except DumpError:
        return None
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(np.square(finite)))) if finite.size else None
