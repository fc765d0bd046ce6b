"""Finds values that a wrapper hands on as new tensors, so that the graph does not connect them.

DTensor gives an op the local part of another tensor; FSDP2 gives it a parameter that was gathered
from all ranks. Both are recognised by their values, which are the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from sonde.compare.run_layout import AxisRule
from sonde.compare.runs.merging.grid import RankGrid
from sonde.compare.runs.merging.micro_batches import MicroBatches
from sonde.compare.runs.merging.plan import Place, merge_parts
from sonde.compare.runs.run_side import RunSide, SideValue
from sonde.core.errors import DumpError
from sonde.core.keys import Io
from sonde.dump.graph_files.placement import RecordedPlacement
from sonde.dump.tensor_record import TensorRecord

Placements = Mapping[tuple[str, Io, int], RecordedPlacement]
Parts = Mapping[tuple[str, Io, int], Mapping[Place, TensorRecord]]


def find_aliases(
    side: RunSide, placements: Placements, names: MicroBatches, parts: Parts, grid: RankGrid
) -> dict[SideValue, SideValue]:
    """For values of ``side`` that are copies of others: the value to read instead."""
    if not placements:
        return {}
    return {**_handed_on(side, names), **_gathered(side, placements, parts, grid)}


def _handed_on(side: RunSide, names: MicroBatches) -> dict[SideValue, SideValue]:
    """Inputs of the step that are outputs of its own ops."""
    known: dict[str, SideValue] = {}
    found: dict[SideValue, SideValue] = {}
    sizes = {op.size for op in side.leaves("input")}
    leaves = {op.name for op in side.leaves("input")}
    for op in side.ops:
        for value in op.inputs:
            if value.op in leaves and value not in found:
                digest = _digest(side.records.get((value.op, "output", value.slot)))
                if digest in known:
                    found[value] = known[digest]
        for output in op.outputs if not op.is_leaf else ():
            record = side.records.get((op.name, "output", output.slot))
            if sizes and record is not None and (digest := _digest(record)):
                known[digest] = SideValue(names.name(op.name), output.slot)
    return found


def _gathered(
    side: RunSide, placements: Placements, parts: Parts, grid: RankGrid
) -> dict[SideValue, SideValue]:
    """Outputs of ops that are whole parameters, of which the rank has a shard."""
    wholes: dict[str, SideValue] = {}
    for leaf in side.leaves("parameter"):
        # The placement is recorded where the parameter is read.
        placement = next(
            (
                placements[op.name, "input", slot]
                for op in side.readers(leaf.value)
                for slot, value in op.inputs_by_slot
                if value == leaf.value and (op.name, "input", slot) in placements
            ),
            placements.get((leaf.name, "output", 0)),
        )
        shards = parts.get((leaf.name, "output", 0), {})
        if placement is None or len(shards) < 2:
            continue
        whole = _whole(shards, placement, grid)
        if whole is not None and (digest := _digest_of(whole)):
            wholes[digest] = leaf.value
    found: dict[SideValue, SideValue] = {}
    for op in side.ops if wholes else ():
        for output in op.outputs if op.phase == "forward" and not op.is_leaf else ():
            digest = _digest(side.records.get((op.name, "output", output.slot)))
            if digest in wholes:
                found[SideValue(op.name, output.slot)] = wholes[digest]
    return found


def _whole(
    shards: Mapping[Place, TensorRecord], placement: RecordedPlacement, grid: RankGrid
) -> NDArray[Any] | None:
    axes = grid.axes_of(placement)
    if not any(kind.kind == "sharded" for kind in axes.values()):
        return None
    rules = [AxisRule("one")] * len(grid.axes)
    for number, kind in axes.items():
        if kind.kind == "sharded":
            rules[number] = AxisRule("concat", kind.dim, kind.is_inner)
    try:
        return merge_parts({place: record.numpy() for place, record in shards.items()}, rules)
    except (DumpError, ValueError):
        return None


def _digest(record: TensorRecord | None) -> str:
    """A hash of the values; empty for constants, and where there are no values."""
    if record is None or record.path is None:
        return ""
    try:
        return _digest_of(record.numpy())
    except DumpError:
        return ""


def _digest_of(values: NDArray[Any]) -> str:
    if values.size < 2 or (values == values.reshape(-1)[0]).all():
        return ""
    flat = np.ascontiguousarray(values)
    return f"{flat.dtype}{flat.size}{xxhash.xxh3_128_hexdigest(flat.tobytes())}"
