"""Finds the order of the rows of a merged batch in the other run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from sonde.compare.runs.merging.merge import Slot
from sonde.compare.runs.merging.plan import RowOrder
from sonde.compare.runs.merging.planning import SidePlanner
from sonde.compare.runs.merging.record import MergedRecord
from sonde.core.errors import DumpError
from sonde.dump.tensor_record import TensorRecord

_MOST_ROWS: Final = 100_000
_MOST_TRIED: Final = 50
"""Tensors that are searched for equal rows."""


def row_order(
    planner: SidePlanner,
    plans: Mapping[Slot, TensorRecord],
    twin_of: Callable[[Slot], TensorRecord | None],
    inputs: Sequence[TensorRecord],
) -> RowOrder | None:
    """The order by the first tensors of the forward pass that have the same rows on both sides;
    None if it is the same, or not known."""
    tried = 0
    for slot, record in plans.items():
        kind, phase = planner.kinds.get(slot[0], ("op", "forward"))
        is_batch = isinstance(record, MergedRecord) and _is_batch(record, planner.batch_axes)
        if phase != "forward" or not is_batch or tried > _MOST_TRIED:
            continue
        for other in inputs if kind == "input" else (twin_of(slot),):
            if other is None or other.shape != record.shape:
                continue
            tried += 1
            rows = _matching_rows(record, other)
            if rows is not None:
                is_same = rows == tuple(range(len(rows)))
                return None if is_same else RowOrder(rows, planner.batch_axes)
    return None


def _is_batch(record: MergedRecord, axes: frozenset[int]) -> bool:
    """Whether its rows are divided along all axes of the batch: what is divided into micro-batches
    later has another order."""
    rules = [record.plan.rules[axis] for axis in axes]
    return bool(rules) and all(rule.rule == "concat" and rule.dim == 0 for rule in rules)


def _matching_rows(record: TensorRecord, other: TensorRecord) -> tuple[int, ...] | None:
    """For each row of ``other`` the number of the same row of ``record``; None if they do not have
    the same rows, each once."""
    rows = _rows(record)
    places = {row: number for number, row in enumerate(rows)}
    wanted = _rows(other)
    if len(places) < 2 or len(places) != len(rows) or sorted(wanted) != sorted(rows):
        return None
    return tuple(places[row] for row in wanted)


def _rows(record: TensorRecord) -> list[bytes]:
    try:
        values = record.numpy()
    except DumpError:
        return []
    if values.ndim < 1 or not 1 < len(values) <= _MOST_ROWS:
        return []
    return [row.tobytes() for row in np.ascontiguousarray(values)]
