"""Pairs and measures one step: the work that may run in another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache

from sonde.compare.run_layout import RunLayout
from sonde.compare.runs.load import load_side
from sonde.compare.runs.measure import Measured, MeasureTask, measure_all
from sonde.compare.runs.merging.both_sides import MergedSides, merge_sides
from sonde.compare.runs.merging.gradients import add_gradient_pairs, leave_out_layout
from sonde.compare.runs.merging.merge import collect_ranks, placements_of
from sonde.compare.runs.merging.micro_batches import count_backward_passes
from sonde.compare.runs.pairing.alignment import Alignment
from sonde.compare.runs.pairing.pair import align
from sonde.compare.runs.run_side import RunSide
from sonde.compare.runs.tensor_pairs import PendingPair, pending_pairs
from sonde.core.keys import Io
from sonde.dump.reader import Dump
from sonde.dump.reading.directories import DumpProblem
from sonde.dump.tensor_record import TensorRecord


@dataclass(frozen=True, slots=True)
class StepWork:
    """One step to compare, of one rank, or of all ranks merged (``rank`` is None). ``names`` pairs
    ops by name; ``known``: the parameters that the first step paired. ``perturbed`` is a dump of b
    with its weights changed in their last bits."""

    step: int
    rank: int | None
    names: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    layout_a: RunLayout = field(default_factory=RunLayout)
    layout_b: RunLayout = field(default_factory=RunLayout)
    perturbed: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """The pairs of a step with their distances; not assessed yet."""

    work: StepWork
    pairs: list[PendingPair]
    found: Alignment
    merged: MergedSides | None
    problems_a: tuple[DumpProblem, ...]
    problems_b: tuple[DumpProblem, ...]

    @property
    def parameters(self) -> dict[str, str]:
        """The names of the parameters that were paired."""
        return {
            op.name: other.name
            for op, other, _ in self.found.pairs()
            if op.node_kind == "parameter"
        }


def prepare_at(path_a: str, path_b: str, work: StepWork) -> PreparedStep:
    """`prepare_step` for dumps at these paths, which this process keeps open."""
    return prepare_step(_open(path_a), _open(path_b), work)


@lru_cache(maxsize=4)
def _open(path: str) -> Dump:
    return Dump(path)


def prepare_step(
    a: Dump, b: Dump, work: StepWork, progress: Callable[[int, int], None] | None = None
) -> PreparedStep:
    """Pair the ops of one step and measure their tensors. ``progress`` is called with the number of
    tensors done and in total."""
    merged: MergedSides | None = None
    if work.rank is None:
        merged = _merged(a, b, work)
        side_a, side_b = merged.a, merged.b
    else:
        coarser = _coarser(a, b)
        side_a = load_side(a, work.step, work.rank, without_backward=coarser is a)
        side_b = load_side(b, work.step, work.rank, without_backward=coarser is b)
    found = align(side_a, side_b, work.names, work.known)
    pairs = pending_pairs(found)
    if merged is not None:
        leave_out_layout(pairs)
        add_gradient_pairs(pairs, found, merged.settled)
    _measure(pairs, work, _perturbed_records(work), progress)
    return PreparedStep(work, pairs, found, merged, a.problems, b.problems)


def _coarser(a: Dump, b: Dump) -> Dump | None:
    """The dump that has whole calls where the other one has ops."""
    writers = a.writer(), b.writer()
    if writers[0] == writers[1] or "msprobe" not in writers:
        return None
    return a if writers[0] == "msprobe" else b


def _merged(a: Dump, b: Dump, work: StepWork) -> MergedSides:
    sides_a, sides_b = _sides(a, work.step), _sides(b, work.step)
    # Ranks and micro-batches share out the same samples: which one gets a sample may differ.
    joins = max(_backward_passes(sides_a) | _backward_passes(sides_b)) > 1
    return merge_sides(
        collect_ranks(sides_a, work.layout_a, joins_batches=joins),
        collect_ranks(sides_b, work.layout_b, joins_batches=joins),
    )


def _sides(dump: Dump, step: int) -> dict[int, RunSide]:
    return {rank: load_side(dump, step, rank) for rank in dump.ranks}


def _backward_passes(sides: Mapping[int, RunSide]) -> set[int]:
    return {count_backward_passes(side) for side in sides.values()}


def has_other_division(a: Dump, b: Dump, step: int, rank: int) -> bool:
    """Whether one run accumulates gradients over more micro-batches than the other, or, with
    several ranks, the dumps record other placements."""
    sides = [load_side(dump, step, rank) for dump in (a, b)]
    counts = [count_backward_passes(side) for side in sides]
    if counts[0] != counts[1] and min(counts) > 0:
        return True
    placements = [
        {(each.sizes, each.axes) for each in placements_of(side).values()} for side in sides
    ]
    return len(a.ranks) > 1 and placements[0] != placements[1]


def _perturbed_records(work: StepWork) -> Mapping[tuple[str, Io, int], TensorRecord]:
    if work.perturbed is None:
        return {}
    dump = _open(work.perturbed)
    rank = dump.ranks[0] if work.rank is None else work.rank
    return load_side(dump, work.step, rank).records if work.step in dump.steps(rank=rank) else {}


def _measure(
    pairs: Sequence[PendingPair],
    work: StepWork,
    perturbed: Mapping[tuple[str, Io, int], TensorRecord],
    progress: Callable[[int, int], None] | None,
) -> None:
    """Run the tasks of all pairs; two files that several pairs compare are read once."""
    tasks = {_identity(task): task for pair in pairs for task in pair.tasks}
    results: dict[tuple[object, ...], Measured] = {}
    wanted = [task.with_perturbed(perturbed) for task in tasks.values()]
    with closing(measure_all(wanted, threads=work.threads)) as measured:
        for identity, each in zip(tasks, measured, strict=True):
            results[identity] = each
            if progress is not None:
                progress(len(results), len(tasks))
    for pair in pairs:
        pair.measured = [results[_identity(task)] for task in pair.tasks]


def _identity(task: MeasureTask) -> tuple[object, ...]:
    return (
        task.a.directory,
        task.a.file_name or task.a.key,
        task.b.directory,
        task.b.file_name or task.b.key,
        task.parameter_a,
        task.parameter_b,
        task.is_weight,
    )
