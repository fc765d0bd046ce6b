"""Tells which values of a rank depend on its own part of the batch.

A number that each rank computes from its own samples, such as a count of targets, is a part of that
of the whole batch. One that was exchanged between ranks is whole already: a factor between it and
the number of the other run is a difference, and no placement may be inferred that hides it.
"""

from __future__ import annotations

from collections.abc import Callable

from sonde.compare.runs.run_side import RunSide, SideOp
from sonde.watch.hit_text import COLLECTIVES


def local_ops(side: RunSide, differs: Callable[[SideOp], bool]) -> frozenset[str]:
    """The ops and leaves that depend on the samples of this rank: the first that differ between
    ranks, by ``differs``, which reads values, and what is computed from them without an exchange.
    Parameters are no samples."""
    found: set[str] = set()
    weights = {op.name for op in side.leaves("parameter")}
    for op in side.ops:
        if op.phase == "optimizer" or op.name in weights:
            continue
        is_exchange = op.type.startswith(COLLECTIVES)
        if not is_exchange and any(value.op in found for value in op.inputs):
            found.add(op.name)
        elif op.inputs and all(value.op in weights for value in op.inputs):
            weights.add(op.name)
        elif differs(op):
            found.add(op.name)
    return frozenset(found)
