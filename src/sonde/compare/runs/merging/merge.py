"""Merges the sides of all ranks of a run into one side, which is compared like any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sonde.compare.options import CompareError
from sonde.compare.run_layout import RunLayout
from sonde.compare.runs.merging.aliases import find_aliases
from sonde.compare.runs.merging.grid import RankGrid, named_grid, rank_grid
from sonde.compare.runs.merging.micro_batches import (
    MicroBatches,
    count_backward_passes,
    split_micro_batches,
)
from sonde.compare.runs.merging.plan import Place
from sonde.compare.runs.run_side import RunSide, SideOp, SideValue
from sonde.core.keys import Io
from sonde.dump.graph_files.placement import RecordedPlacement, parse_placement
from sonde.dump.tensor_record import TensorRecord

Slot = tuple[str, Io, int]
"""A tensor of a step: op, input or output, position."""


@dataclass(frozen=True, slots=True)
class RankSides:
    """One step of all ranks of a run. ``base`` is the rank whose graph is used: the one that ran
    most ops. ``parts`` are the tensors of the grid's places, by their common names; ``missing``:
    the ranks that did not run an op of the base rank."""

    grid: RankGrid
    layout: RunLayout
    sides: Mapping[int, RunSide]
    base: int
    batches: Mapping[int, MicroBatches]
    parts: Mapping[Slot, Mapping[Place, TensorRecord]]
    placements: Mapping[Slot, RecordedPlacement]
    missing: Mapping[str, tuple[int, ...]]
    aliases: Mapping[SideValue, SideValue] = field(default_factory=dict)

    @property
    def side(self) -> RunSide:
        return self.sides[self.base]

    def name(self, op: str) -> str:
        """The name of an op of the base rank in all micro-batches."""
        return self.batches[self.base].name(op)

    def is_kept(self, op: SideOp) -> bool:
        """Whether an op of the base rank is in the merged side: of those that each micro-batch
        repeats, the first; of those that only later ones run, the last."""
        batches = self.batches[self.base]
        number = batches.numbers.get(op.name)
        if number is None or batches.count == 1:
            return True
        is_later = batches.name(op.name) in batches.only_later
        return number == (batches.count - 1 if is_later else 0)


def collect_ranks(
    sides: Mapping[int, RunSide], layout: RunLayout, *, joins_batches: bool
) -> RankSides:
    """Find the parts of each tensor. CompareError if the ranks have other numbers of backward
    passes: there is nothing to join them by."""
    counts = {rank: count_backward_passes(side) for rank, side in sides.items()}
    if joins_batches and len(set(counts.values())) > 1:
        text = ", ".join(f"rank {rank}: {count}" for rank, count in counts.items())
        raise CompareError(
            f"the ranks accumulate different numbers of micro-batches ({text}), so they cannot be "
            "joined; sonde ranks compares the ranks with each other",
            slug="compare-layouts",
        )
    base = max(sides, key=lambda rank: (len(sides[rank].ops), -rank))
    placements = placements_of(sides[base])
    grid = (
        named_grid(tuple(sides), layout.mesh)
        if layout.mesh
        else rank_grid(tuple(sides), placements.values())
    )
    batches = {
        rank: split_micro_batches(side) if joins_batches else MicroBatches(1)
        for rank, side in sides.items()
    }
    grid = grid.with_micro_batches(batches[base].count)
    parts = _parts(sides, batches, grid)
    names = batches[base]
    kept = {(names.name(op), io, slot): each for (op, io, slot), each in placements.items()}
    missing = _missing(sides, base, batches)
    found = RankSides(grid, layout, sides, base, batches, parts, kept, missing)
    return replace(found, aliases=find_aliases(sides[base], kept, names, parts, grid))


def placements_of(side: RunSide) -> dict[Slot, RecordedPlacement]:
    """The placements that the dump records for the tensors of a step."""
    found: dict[Slot, RecordedPlacement] = {}
    for op in side.ops:
        for name, value in op.attributes:
            head, _, rest = name.partition(".")
            io, _, slot = rest.partition(".")
            placement = parse_placement(value) if head == "placement" else None
            if placement is None or not slot.isdigit():
                continue
            if io == "input":
                found[op.name, "input", int(slot)] = placement
            elif io == "output":
                found[op.name, "output", int(slot)] = placement
    return found


def _parts(
    sides: Mapping[int, RunSide], batches: Mapping[int, MicroBatches], grid: RankGrid
) -> dict[Slot, dict[Place, TensorRecord]]:
    """The tensors at each place. What runs once, such as the optimizer, is at micro-batch 0."""
    found: dict[Slot, dict[Place, TensorRecord]] = {}
    places = {(micro, rank): place for place, micro, rank in grid.places()}
    for rank, side in sides.items():
        names = batches[rank]
        for (op, io, slot), record in side.records.items():
            micro = names.numbers.get(op, 0)
            found.setdefault((names.name(op), io, slot), {})[places[micro, rank]] = record
        if names.count > 1:
            _add_inputs(found, side, names, {micro: places[micro, rank] for micro, _ in places})
    return found


def _add_inputs(
    found: dict[Slot, dict[Place, TensorRecord]],
    side: RunSide,
    names: MicroBatches,
    places: Mapping[int, Place],
) -> None:
    """The inputs of later micro-batches, as the ops that read them had them: the dump of the leaf
    has the first value only."""
    leaves = {op.name for op in side.leaves("input")}
    for op in side.ops:
        micro = names.numbers.get(op.name, 0)
        for slot, value in op.inputs_by_slot if micro else ():
            record = side.records.get((op.name, "input", slot))
            if value.op in leaves and record is not None:
                found.get((value.op, "output", 0), {}).setdefault(places[micro], record)


def _missing(
    sides: Mapping[int, RunSide], base: int, batches: Mapping[int, MicroBatches]
) -> dict[str, tuple[int, ...]]:
    ops = {rank: _lines(side, batches[rank]) for rank, side in sides.items()}
    ran = {rank: set(lines.values()) for rank, lines in ops.items()}
    found = {
        name: tuple(rank for rank in sides if line not in ran[rank])
        for name, line in ops[base].items()
    }
    return {name: ranks for name, ranks in found.items() if ranks}


def _lines(side: RunSide, names: MicroBatches) -> dict[str, tuple[object, ...]]:
    """What tells an op apart on all ranks: its type, its line, and how many such ops ran before it.
    Names do not: they are counted, so that one more ``mul`` gives other names to those after it.
    """
    counts: Counter[tuple[object, ...]] = Counter()
    found: dict[str, tuple[object, ...]] = {}
    for op in side.ops:
        if op.is_leaf:
            continue
        name = names.name(op.name)
        line = (op.type, op.phase, op.source.file, op.source.line) if op.source else (name,)
        key = (names.numbers.get(op.name, 0), *line)
        found.setdefault(name, (*key, counts[key]))
        counts[key] += 1
    return found


def merged_ops(found: RankSides) -> list[SideOp]:
    """The ops of the base rank, one for all micro-batches, with the shapes of whole tensors as far
    as they are recorded. Values that a wrapper hands on as new tensors are read where they were
    made."""
    ops: list[SideOp] = []
    sources = _sources(found.side)
    hidden = {value.op for value in found.aliases}
    # Parameters that FSDP2 gathered are read long before the optimizer reads their shards.
    read_early = {value.op for value in found.aliases.values()}
    for op in sorted(found.side.ops, key=lambda op: not (op.is_leaf and op.name in read_early)):
        if not found.is_kept(op) or (op.is_leaf and op.name in hidden):
            continue
        inputs = (SideValue(found.name(value.op), value.slot) for value in op.inputs)
        ops.append(
            replace(
                op,
                index=len(ops),
                name=found.name(op.name),
                inputs=tuple(found.aliases.get(value, value) for value in inputs),
                source=op.source or sources.get(op.name),
            )
        )
    return ops


def _sources(side: RunSide) -> dict[str, Any]:
    """For ops without a line of the program, such as those of DDP: the line of the last op before
    them that they depend on."""
    found: dict[str, Any] = {}
    for op in side.ops:
        before = (found.get(value.op) for value in reversed(op.inputs))
        found[op.name] = op.source or next((each for each in before if each is not None), None)
    return found
