"""Answers about the tensors of a dump that need more than one of them."""

from __future__ import annotations

from typing import Final

from sonde.core.errors import UsageError
from sonde.server.dumps.index import IndexedDump
from sonde.server.dumps.values import DumpTensor
from sonde.wire.api import StatisticCurve, StatisticPoint
from sonde.wire.questions import OpTensor, OpTensors
from sonde.wire.shapes import TensorName

_MOST_POINTS: Final = 1000


def op_tensors(shelf: IndexedDump, rank: int, tensor: TensorName) -> OpTensors:
    """Of the step asked for, or of the last that has tensors of the op."""
    steps: dict[tuple[str, int], list[int]] = {}
    shown: list[DumpTensor] = []
    for directory in shelf.steps(rank):
        listing = shelf.listing_for(directory, tensor.op)
        found = listing.of_op(tensor.op)
        for each in found:
            if each.file is not None:
                steps.setdefault((each.io, each.slot), []).append(directory.step)
        if found and tensor.step in (None, directory.step):
            shown = [DumpTensor(listing, each) for each in found]
    if not shown:
        raise UsageError(f"the dump has no tensors of {tensor.op}", slug="no-such-tensor")
    shown.sort(key=lambda each: (each.stored.io, each.stored.slot))
    return OpTensors(
        tensor.op,
        shown[0].listing.step.step,
        tuple(
            OpTensor(
                each.stored.io,
                each.stored.slot,
                each.type,
                each.numbers(),
                each.has_values,
                tuple(steps.get((each.stored.io, each.stored.slot), ())),
                "" if each.has_values else "the dump has only statistics of it",
            )
            for each in shown
        ),
    )


def statistic_curve(shelf: IndexedDump, rank: int, tensor: TensorName) -> StatisticCurve:
    """Over all steps that have the tensor, or evenly spaced ones of very many."""
    found: dict[int, DumpTensor] = {}
    for directory in shelf.steps(rank):
        listing = shelf.listing_for(directory, tensor.op)
        stored = listing.find(tensor.op, tensor.io, tensor.slot)
        if stored is not None:
            found[directory.step] = DumpTensor(listing, stored)
    if not found:
        raise UsageError(
            f"the dump has no {tensor.io} {tensor.slot} of {tensor.op}", slug="no-such-tensor"
        )
    every = max(1, len(found) // _MOST_POINTS)
    points: list[StatisticPoint] = []
    for step, each in sorted(found.items())[::every]:
        numbers = each.numbers()
        if numbers is not None:
            points.append(StatisticPoint(step, numbers))
    kind = next(iter(found.values())).type
    return StatisticCurve(tensor.op, tensor.io, tensor.slot, kind, tuple(points))
