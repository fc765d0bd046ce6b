"""Compares two dumps step by step: pairs, measures and assesses their ops."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Final, Literal

from sonde.compare.options import CompareError, CompareOptions
from sonde.compare.runs.fault import PERTURBED_FACTOR, FaultFinder, is_mixed
from sonde.compare.runs.merging.fault_ranks import describe_fault
from sonde.compare.runs.overview import loss_of, parts_of
from sonde.compare.runs.pairing.alignment import Alignment
from sonde.compare.runs.result import (
    LossPair,
    OpPair,
    RunComparison,
    SideSummary,
    Unpaired,
    UnpairedRole,
)
from sonde.compare.runs.run_side import RunSide, SideOp
from sonde.compare.runs.step_selection import steps_to_compare
from sonde.compare.runs.step_work import (
    PreparedStep,
    StepWork,
    prepare_at,
    prepare_step,
)
from sonde.compare.runs.tensor_pairs import PendingPair
from sonde.compare.runs.verdict import reach_verdict
from sonde.core.graph import Source
from sonde.core.operators.kinds import is_plumbing
from sonde.dump.reader import Dump
from sonde.workers.run import Work, run_work

_WORTH_SECONDS: Final = 4.0
"""Other processes take a second or two to start: they are worth it for more work than this."""
_OTHER_NETWORK = 0.8
"""From this share of ops without a counterpart on, the runs may be of different networks."""


def compare(a: Dump, b: Dump, options: CompareOptions | None = None) -> RunComparison:
    """Pair the ops of two runs, measure how their tensors differ, and find the first op at fault.

    CompareError if the dumps have no step or rank in common, or nothing that can be compared.
    """
    options = options or CompareOptions()
    planned = steps_to_compare(a, b, options)
    work = RunWork(a, b, options)
    for number, prepared in enumerate(_prepared(a, b, planned, options)):
        work.assess(prepared)
        del prepared
        if len(planned) > 1:
            options.progress("steps", number + 1, len(planned))
    if not work.pairs:
        raise CompareError(
            f"{a.path} and {b.path}: no two ops could be paired; give their names with --map",
            slug="compare-nothing",
        )
    return work.finish(sorted({each.step for each in planned}))


def _prepared(
    a: Dump, b: Dump, planned: Sequence[StepWork], options: CompareOptions
) -> Iterator[PreparedStep]:
    """The steps, paired and measured. The first is prepared here: the others pair their parameters
    as it did, whatever process prepares them. Other processes are started if the user asked for
    them, or if the rest takes longer than starting them."""
    is_single = len(planned) == 1

    def progress(done: int, total: int) -> None:
        if is_single:
            options.progress(f"step {planned[0].step}", done, total)

    started = time.monotonic()
    first = prepare_step(a, b, planned[0], progress)
    seconds = (time.monotonic() - started) * (len(planned) - 1)
    yield first
    rest = [replace(work, known=first.parameters) for work in planned[1:]]
    del first
    workers = options.workers
    if not rest or workers.is_alone or not (workers.is_chosen or seconds > _WORTH_SECONDS):
        yield from (prepare_step(a, b, work) for work in rest)
        return
    paths = str(a.path), str(b.path)
    yield from run_work((Work(_name(each), prepare_at, (*paths, each)) for each in rest), workers)


def _name(work: StepWork) -> str:
    return f"step {work.step}" if work.rank is None else f"step {work.step}, rank {work.rank}"


@dataclass
class RunWork:
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

    finders: dict[int | None, FaultFinder] = field(default_factory=dict)
    problems: tuple[dict[str, None], dict[str, None]] = field(default_factory=lambda: ({}, {}))
    merge_notes: tuple[str, ...] = ()

    def assess(self, prepared: PreparedStep) -> None:
        """Assess a step; those of a rank in their order."""
        pairs, found, work = prepared.pairs, prepared.found, prepared.work
        for known, new in zip(
            self.problems, (prepared.problems_a, prepared.problems_b), strict=True
        ):
            known.update((str(each), None) for each in new)
        if self.mixed is None:
            self.mixed = is_mixed(pairs)
        finder = self.finders.setdefault(work.rank, FaultFinder(self.options, self.mixed))
        finder.assess(pairs, found)
        if prepared.merged is not None:
            self.merge_notes = self.merge_notes or prepared.merged.notes
            for pair in pairs:
                if pair.status == "diverged":
                    pair.fault = describe_fault(pair, prepared.merged)
        rank = 0 if work.rank is None else work.rank
        self._add(pairs, found, work.step, rank)
        self.losses.append(loss_of(found, work.step, rank, self.options, mixed=bool(self.mixed)))

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


def _notes(work: RunWork, kinds: Iterable[str]) -> tuple[str, ...]:
    notes = list(work.merge_notes)
    if work.options.perturbed is not None:
        notes.append(
            f"tolerance: up to {PERTURBED_FACTOR:g} times the error of b with its weights changed "
            "in their last bits, where that is more than rounding allows"
        )
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
    for side, found in zip("ab", work.problems, strict=True):
        problems = list(found)
        if problems:
            more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
            notes.append(f"{side} is damaged: {problems[0]}{more}")
    return tuple(notes)


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
        source_a=_fault_source(pair, "a") or pair.a.source,
        source_b=_fault_source(pair, "b") or pair.b.source,
        tensors=tuple(measured.pair for measured in pair.measured),
        status=pair.status,
        error=pair.error,
        input_error=pair.input_error,
        tolerance=pair.tolerance,
        allowed=pair.allowed,
        notes=tuple(dict.fromkeys(notes)),
        reads=reads,
        fault=pair.fault,
    )


def _fault_source(pair: PendingPair, side: Literal["a", "b"]) -> Source | None:
    """The line of what ranks of this side did unlike others."""
    return pair.fault.source if pair.fault is not None and pair.fault.side == side else None


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
