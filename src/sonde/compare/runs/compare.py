"""``compare``: two dumps in, a Comparison out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isnan

from sonde.compare.options import CompareError, CompareOptions
from sonde.compare.runs.evidence import describe_attributes
from sonde.compare.runs.fault import AssessedPair, FaultFinder, is_mixed
from sonde.compare.runs.kinds import is_plumbing
from sonde.compare.runs.load import load_side
from sonde.compare.runs.measure import MeasureTask, measure_all
from sonde.compare.runs.overview import loss_of, parts_of
from sonde.compare.runs.pairing.alignment import Alignment
from sonde.compare.runs.pairing.pair import align
from sonde.compare.runs.result import LossPair, OpPair, RunComparison, SideSummary, Unpaired
from sonde.compare.runs.run_side import RunSide, SideOp
from sonde.compare.runs.tensor_pairs import PairDraft, draft_pairs
from sonde.compare.runs.verdict import reach_verdict
from sonde.dump.reader import Dump

_STRANGERS = 0.8
"""The share of ops without a counterpart from which on the runs may be of different networks."""


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
    if not common and options.rank is None and len(a.ranks) == len(b.ranks) == 1:
        raise CompareError(
            f"{a.path} is of rank {a.ranks[0]}, {b.path} of rank {b.ranks[0]}; "
            "give dumps of the same rank",
            slug="compare-ranks",
        )
    if not common:
        raise CompareError(
            f"{a.path} has the ranks {list(a.ranks)} and {b.path} {list(b.ranks)}: "
            f"{'none' if options.rank is None else f'rank {options.rank} is not'} in both",
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
    """The comparison as it grows, step by step."""

    a: Dump
    b: Dump
    options: CompareOptions
    pairs: list[OpPair] = field(default_factory=list)
    unpaired: list[Unpaired] = field(default_factory=list)
    losses: list[LossPair] = field(default_factory=list)
    readers: dict[tuple[int, int, str], OpPair] = field(default_factory=dict)
    mixed: bool | None = None
    nbytes: int = 0
    op_counts: tuple[int, int] = (0, 0)

    def compare_rank(self, rank: int, steps: Sequence[int]) -> None:
        finder: FaultFinder | None = None
        parameters: dict[str, str] = {}
        for number, step in enumerate(steps):
            side_a, side_b = load_side(self.a, step, rank), load_side(self.b, step, rank)
            found = align(side_a, side_b, self.options.names, parameters)
            parameters.update(
                (op.name, other.name)
                for op, other, _ in found.pairs()
                if op.node_kind == "parameter"
            )
            drafts = draft_pairs(found)
            what = f"step {step} ({number + 1} of {len(steps)})"
            self._measure(drafts, what if len(steps) > 1 else f"step {step}")
            if finder is None:
                self.mixed = is_mixed(drafts) if self.mixed is None else self.mixed
                finder = FaultFinder(self.options, self.mixed)
            assessed = finder.assess(drafts, found)
            self._add(assessed, found, step, rank)
            self.losses.append(loss_of(found, step, rank, self.options, mixed=bool(self.mixed)))

    def _measure(self, drafts: Sequence[PairDraft], what: str) -> None:
        """Fill in what every draft asks for; a pair of files is read once."""
        tasks: dict[tuple[object, ...], MeasureTask] = {}
        for draft in drafts:
            for task in draft.tasks:
                tasks.setdefault(_identity(task), task)
        total = len(tasks)
        finished = 0

        def done(nbytes: int) -> None:
            nonlocal finished
            finished += 1
            self.nbytes += nbytes
            self.options.progress(what, finished, total)

        found = measure_all(list(tasks.values()), threads=self.options.threads, done=done)
        results = dict(zip(tasks, found, strict=True))
        for draft in drafts:
            draft.measured = [results[_identity(task)] for task in draft.tasks]

    def _add(
        self, assessed: Sequence[AssessedPair], found: Alignment, step: int, rank: int
    ) -> None:
        place = len(self.pairs)
        makers = {
            ends: place + index
            for index, each in enumerate(assessed)
            for ends in (*each.draft.makes, (each.draft.a.value, each.draft.b.value))
            if ends is not None and each.draft.state is None
        }
        made = [
            _op_pair(
                each,
                step,
                rank,
                place + index,
                tuple(dict.fromkeys(makers[ends] for ends in each.draft.reads if ends in makers)),
            )
            for index, each in enumerate(assessed)
        ]
        self.pairs += made
        for pair, each in zip(made, assessed, strict=True):
            if each.draft.is_leaf or is_plumbing(each.draft.a.type):
                continue
            for value, _ in each.draft.reads:
                self.readers.setdefault((rank, step, value.op), pair)
        self.op_counts = (
            max(self.op_counts[0], sum(not op.is_leaf for op in found.a.ops)),
            max(self.op_counts[1], sum(not op.is_leaf for op in found.b.ops)),
        )
        self.unpaired += _unpaired(assessed, found, step, rank)

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
        draft = RunComparison(
            "aligned",
            a,
            b,
            tuple(steps),
            None,
            tuple(self.pairs),
            tuple(self.unpaired),
            tuple(self.losses),
            parts_of(self.pairs),
            (),
            (),
            _notes(self, kinds),
            "both" if len(kinds) > 1 else kinds.pop(),
            bool(self.mixed),
            self.nbytes,
        )
        return reach_verdict(draft, self.readers)


def _notes(work: _Work, kinds: Iterable[str]) -> tuple[str, ...]:
    notes = []
    if "statistics" in kinds:
        notes.append(
            "compared by statistics (norm, extremes, mean) where a side has no values: "
            "small or rearranged differences do not show"
        )
    paired = sum(not pair.is_leaf and not is_plumbing(pair.type_a) for pair in work.pairs)
    alone = sum("no op like it" in each.reason for each in work.unpaired)
    if alone > _STRANGERS * (paired + alone):
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


def _op_pair(
    assessed: AssessedPair, step: int, rank: int, order: int, reads: tuple[int, ...]
) -> OpPair:
    draft = assessed.draft
    notes = [*assessed.notes, *(describe_attributes(draft) if assessed.error else [])]
    if draft.is_blind and assessed.status == "diverged":
        notes.append("part of what it reads has no counterpart in the other run")
    return OpPair(
        step,
        rank,
        order,
        draft.name_a,
        draft.name_b,
        draft.a.type,
        draft.b.type,
        "state" if draft.state is not None and not draft.lone else draft.a.kind,
        draft.a.phase,
        draft.a.scope,
        draft.how,
        tuple(op.name for op in draft.members_a),
        tuple(op.name for op in draft.members_b),
        draft.a.source,
        draft.b.source,
        tuple(measured.pair for measured in draft.measured),
        assessed.status,
        assessed.error,
        assessed.input_error,
        assessed.tolerance,
        assessed.allowed,
        tuple(dict.fromkeys(notes)),
        reads,
    )


def _unpaired(
    assessed: Sequence[AssessedPair], found: Alignment, step: int, rank: int
) -> list[Unpaired]:
    used_a = {op.index for each in assessed for op in (each.draft.a, *each.draft.members_a)}
    used_b = {op.index for each in assessed for op in (each.draft.b, *each.draft.members_b)}
    sides: tuple[tuple[str, RunSide, set[int]], ...] = (
        ("a", found.a, used_a),
        ("b", found.b, used_b),
    )
    listed: dict[tuple[str, str], Unpaired] = {}
    for label, side, used in sides:
        names = {side.ops[index].name for index in used}
        for op in side.ops:
            if op.index in used or op.name in names or op.node_kind == "constant":
                continue
            listed.setdefault(
                (label, op.name),
                Unpaired(
                    step,
                    rank,
                    "a" if label == "a" else "b",
                    op.name,
                    op.type,
                    op.phase,
                    op.source,
                    _why_unpaired(op),
                ),
            )
    return list(listed.values())


def _why_unpaired(op: SideOp) -> str:
    if is_plumbing(op.type):
        return "only hands values on"
    if op.kind == "empty":
        return "reserves memory"
    if op.is_leaf:
        return f"no {op.node_kind} like it on the other side"
    return "no op like it on the other side"
