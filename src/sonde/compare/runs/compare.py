"""Compares two dumps step by step: pairs, measures and assesses their ops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from math import isnan
from typing import Literal

from sonde.compare.options import CompareError, CompareOptions
from sonde.compare.runs.fault import FaultFinder, is_mixed
from sonde.compare.runs.load import load_side
from sonde.compare.runs.measure import Measured, MeasureTask, measure_all
from sonde.compare.runs.overview import loss_of, parts_of
from sonde.compare.runs.pairing.alignment import Alignment
from sonde.compare.runs.pairing.pair import align
from sonde.compare.runs.result import (
    LossPair,
    OpPair,
    RunComparison,
    SideSummary,
    Unpaired,
    UnpairedRole,
)
from sonde.compare.runs.run_side import RunSide, SideOp
from sonde.compare.runs.tensor_pairs import PendingPair, pending_pairs
from sonde.compare.runs.verdict import reach_verdict
from sonde.core.operators.kinds import is_plumbing
from sonde.dump.reader import Dump

_OTHER_NETWORK = 0.8
"""From this share of ops without a counterpart on, the runs may be of different networks."""


def compare(a: Dump, b: Dump, options: CompareOptions | None = None) -> RunComparison:
    """Pair the ops of two runs, measure how their tensors differ, and find the first op at fault.

    CompareError if the dumps have no step or rank in common, or nothing that can be compared.
    """
    options = options or CompareOptions()
    ranks = _common_ranks(a, b, options)
    steps = {rank: _common_steps(a, b, rank, options) for rank in ranks}
    work = _Work(a, b, options)
    for rank in ranks:
        work.compare_rank(rank, steps[rank])
    if not work.pairs:
        raise CompareError(
            f"{a.path} and {b.path}: no two ops could be paired; give their names with --map",
            slug="compare-nothing",
        )
    return work.finish(sorted({step for each in steps.values() for step in each}))


def _common_ranks(a: Dump, b: Dump, options: CompareOptions) -> list[int]:
    common = [rank for rank in a.ranks if rank in b.ranks]
    if options.rank is not None:
        common = [rank for rank in common if rank == options.rank]
    if not common:
        missing = "none" if options.rank is None else f"rank {options.rank} is not"
        raise CompareError(
            f"{a.path} has the ranks {list(a.ranks)} and {b.path} {list(b.ranks)}: {missing} in "
            "both; give dumps of the same rank",
            slug="compare-ranks",
        )
    return common


def _common_steps(a: Dump, b: Dump, rank: int, options: CompareOptions) -> list[int]:
    left, right = a.steps(rank=rank), b.steps(rank=rank)
    common = [step for step in left if step in right]
    wanted = [step for step in common if options.steps is None or step in options.steps]
    if not wanted:
        chosen = "" if options.steps is None else f" among {options.steps}"
        raise CompareError(
            f"the dumps have no step in common{chosen}: {a.path} has {_listed(left)}, "
            f"{b.path} has {_listed(right)}",
            slug="compare-steps",
        )
    return wanted


def _listed(steps: Sequence[int]) -> str:
    if not steps:
        return "none"
    shown = ", ".join(str(step) for step in steps[:8])
    return shown if len(steps) <= 8 else f"{shown} and {len(steps) - 8} more"


@dataclass
class _Work:
    """The results of the steps compared so far."""

    a: Dump
    b: Dump
    options: CompareOptions
    pairs: list[OpPair] = field(default_factory=list)
    unpaired: list[Unpaired] = field(default_factory=list)
    losses: list[LossPair] = field(default_factory=list)
    readers: dict[tuple[int, int, str], OpPair] = field(default_factory=dict)
    mixed: bool | None = None
    op_counts: tuple[int, int] = (0, 0)

    def _is_coarser(self, dump: Dump) -> bool:
        """Whether the dump has whole calls where the other one has ops."""
        writers = {self.a.writer(), self.b.writer()}
        return dump.writer() == "msprobe" and len(writers) > 1

    def compare_rank(self, rank: int, steps: Sequence[int]) -> None:
        finder: FaultFinder | None = None
        parameters: dict[str, str] = {}
        for number, step in enumerate(steps):
            side_a = load_side(self.a, step, rank, without_backward=self._is_coarser(self.a))
            side_b = load_side(self.b, step, rank, without_backward=self._is_coarser(self.b))
            found = align(side_a, side_b, self.options.names, parameters)
            parameters.update(
                (op.name, other.name)
                for op, other, _ in found.pairs()
                if op.node_kind == "parameter"
            )
            pairs = pending_pairs(found)
            what = f"step {step} ({number + 1} of {len(steps)})"
            self._measure(pairs, what if len(steps) > 1 else f"step {step}")
            if finder is None:
                self.mixed = is_mixed(pairs) if self.mixed is None else self.mixed
                finder = FaultFinder(self.options, self.mixed)
            finder.assess(pairs, found)
            self._add(pairs, found, step, rank)
            self.losses.append(loss_of(found, step, rank, self.options, mixed=bool(self.mixed)))

    def _measure(self, pairs: Sequence[PendingPair], what: str) -> None:
        """Run the tasks of all pairs; two files that several pairs compare are read once."""
        tasks = {_identity(task): task for pair in pairs for task in pair.tasks}
        results: dict[tuple[object, ...], Measured] = {}
        with closing(measure_all(list(tasks.values()), threads=self.options.threads)) as measured:
            for identity, found in zip(tasks, measured, strict=True):
                results[identity] = found
                self.options.progress(what, len(results), len(tasks))
        for pair in pairs:
            pair.measured = [results[_identity(task)] for task in pair.tasks]

    def _add(self, pairs: Sequence[PendingPair], found: Alignment, step: int, rank: int) -> None:
        place = len(self.pairs)
        producers = {
            value: place + index
            for index, pair in enumerate(pairs)
            for value in (*pair.makes, pair.value)
            if value is not None and pair.state is None
        }
        for index, pair in enumerate(pairs):
            known = (producers[value] for value in pair.reads if value in producers)
            made = _op_pair(pair, step, rank, place + index, tuple(dict.fromkeys(known)))
            self.pairs.append(made)
            if not pair.is_leaf and not is_plumbing(pair.a.type):
                for value, _ in pair.reads:
                    self.readers.setdefault((rank, step, value.op), made)
        self.op_counts = (
            max(self.op_counts[0], sum(not op.is_leaf for op in found.a.ops)),
            max(self.op_counts[1], sum(not op.is_leaf for op in found.b.ops)),
        )
        self.unpaired += _unpaired(pairs, found, step, rank)

    def finish(self, steps: list[int]) -> RunComparison:
        a = SideSummary(str(self.a.path), self.a.writer(), self.op_counts[0], self.a.steps())
        b = SideSummary(str(self.b.path), self.b.writer(), self.op_counts[1], self.b.steps())
        compared = [tensor for pair in self.pairs for tensor in pair.tensors]
        if all(isnan(tensor.error) for tensor in compared):
            problem = next((each.problem for each in compared if each.problem), "no values dumped")
            raise CompareError(
                f"{a.path} and {b.path}: {len(self.pairs)} pairs of ops, but none of their tensors "
                f"can be compared: {problem}",
                slug="compare-nothing",
            )
        kinds = {tensor.by for tensor in compared if not isnan(tensor.error)}
        found = RunComparison(
            verdict="aligned",
            a=a,
            b=b,
            steps=tuple(steps),
            pairs=tuple(self.pairs),
            unpaired=tuple(self.unpaired),
            losses=tuple(self.losses),
            parts=parts_of(self.pairs),
            notes=_notes(self, kinds),
            by="both" if len(kinds) > 1 else kinds.pop(),
            mixed=bool(self.mixed),
        )
        return reach_verdict(found, self.readers)


def _notes(work: _Work, kinds: Iterable[str]) -> tuple[str, ...]:
    notes = []
    if "statistics" in kinds:
        notes.append(
            "compared by statistics (norm, extremes, mean) where a side has no values: "
            "small or rearranged differences do not show"
        )
    paired = sum(not pair.is_leaf and not is_plumbing(pair.type_a) for pair in work.pairs)
    alone = sum(each.role == "op" for each in work.unpaired)
    if alone > _OTHER_NETWORK * (paired + alone):
        notes.append(
            f"{alone} ops have no counterpart, {paired} pairs were found: are these runs of the "
            "same network?"
        )
    if work.mixed:
        notes.append("one side computes in lower precision: its rounding is allowed for")
    for side, dump in (("a", work.a), ("b", work.b)):
        problems = [str(problem) for problem in dump.problems]
        if problems:
            more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
            notes.append(f"{side} is damaged: {problems[0]}{more}")
    return tuple(notes)


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


def _op_pair(pair: PendingPair, step: int, rank: int, order: int, reads: tuple[int, ...]) -> OpPair:
    notes = [*pair.notes, *(pair.describe_arguments() if pair.error else [])]
    if pair.has_unknown_inputs and pair.status == "diverged":
        notes.append("part of what it reads has no counterpart in the other run")
    name_a, name_b = pair.names
    return OpPair(
        step=step,
        rank=rank,
        order=order,
        a=name_a,
        b=name_b,
        type_a=pair.a.type,
        type_b=pair.b.type,
        kind="state" if name_a == pair.state else pair.a.kind,
        phase=pair.a.phase,
        scope=pair.a.scope,
        how=pair.how,
        members_a=tuple(op.name for op in pair.members_a),
        members_b=tuple(op.name for op in pair.members_b),
        source_a=pair.a.source,
        source_b=pair.b.source,
        tensors=tuple(measured.pair for measured in pair.measured),
        status=pair.status,
        error=pair.error,
        input_error=pair.input_error,
        tolerance=pair.tolerance,
        allowed=pair.allowed,
        notes=tuple(dict.fromkeys(notes)),
        reads=reads,
    )


def _unpaired(
    pairs: Sequence[PendingPair], found: Alignment, step: int, rank: int
) -> list[Unpaired]:
    listed: dict[tuple[str, str], Unpaired] = {}
    sides: tuple[tuple[Literal["a", "b"], RunSide, set[int]], ...] = (
        ("a", found.a, {op.index for pair in pairs for op in (pair.a, *pair.members_a)}),
        ("b", found.b, {op.index for pair in pairs for op in (pair.b, *pair.members_b)}),
    )
    for label, side, used in sides:
        names = {side.ops[index].name for index in used}
        for op in side.ops:
            if op.name not in names and op.node_kind != "constant":
                one = Unpaired(
                    step, rank, label, op.name, op.type, op.phase, op.source, *_why_unpaired(op)
                )
                listed.setdefault((label, op.name), one)
    return list(listed.values())


def _why_unpaired(op: SideOp) -> tuple[str, UnpairedRole]:
    if is_plumbing(op.type):
        return "only passes values on", "trivial"
    if op.kind == "empty":
        return "reserves memory", "trivial"
    if op.is_leaf:
        return f"no {op.node_kind} like it on the other side", "leaf"
    return "no op like it on the other side", "op"
