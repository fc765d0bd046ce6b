"""Ranks run other ops: a branch that depends on the rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, split
from sonde.ranks.report import RankOp


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in step.groups("tensor"):
        found = {rank: step.reports[rank].ops for rank in group}
        if all(found.values()) and len(sets := split(found, key=_kinds)) > 1:
            yield _sequence(step, group, sets)
    for group in step.groups("data"):
        if _is_recorded(step, group):
            yield from _recorded(step, group)
            continue
        kinds = {rank: frozenset(each.op for each in step.reports[rank].ops) for rank in group}
        if all(kinds.values()) and _is_whole(step, group) and len(sets := split(kinds)) > 1:
            yield _other_ops(step, group, sets)


def _is_recorded(step: JobStep, group: tuple[int, ...]) -> bool:
    """Whether the ops are from a dump, which has their lines."""
    return all(any(each.source for each in step.reports[rank].ops) for rank in group)


def _recorded(step: JobStep, group: tuple[int, ...]) -> Iterator[Mismatch]:
    """A line whose ops have a backward pass on some ranks only, in a step in which all ranks use
    all parameters."""
    if not all(all(step.reports[rank].digests) for rank in group):
        return
    lines = {
        rank: {(each.source, each.op): each for each in step.reports[rank].ops} for rank in group
    }
    sets = split(lines, key=lambda each: frozenset(each))
    if len(sets) == 1:
        return
    few, many = sets[-1], sets[0]
    ours, theirs = lines[few[0]], lines[many[0]]
    only = [each for key, each in ours.items() if key not in theirs]
    lacks = [each for key, each in theirs.items() if key not in ours]
    first = (only or lacks)[0]
    verb = "runs" if only else "does not run"
    at = f" at {first.source}" if first.source else ""
    number = step.reports[few[0]].ops_step
    yield _mismatch(
        step,
        group,
        few,
        f"{ranks_text(few)} {verb} an op{at} whose gradient is {first.op}, other than "
        f"{ranks_text(many)}, in step {number} and in later steps",
        {"only_here": [_line(each) for each in only], "missing": [_line(each) for each in lacks]},
        first.source,
        dumped_step=number,
    )


def _line(op: RankOp) -> str:
    return f"{op.op} at {op.source}" if op.source else op.op


def _kinds(ops: Sequence[RankOp]) -> tuple[object, ...]:
    """What must agree in tensor parallelism: not the shapes, because shards may be uneven."""
    return tuple((each.op, each.dtype, each.parameter) for each in ops)


def _is_whole(step: JobStep, group: tuple[int, ...]) -> bool:
    """Whether all ranks of the group train one network and use all of it: experts of single ranks
    and parameters without a gradient are reasons to run other ops."""
    tensors = [each for rank in group for each in step.descriptions[rank].tensors]
    is_declared = all(not each.is_inferred for each in tensors if each.kind == "parameter")
    return is_declared and not any(step.reports[rank].without_gradient for rank in group)


def _sequence(step: JobStep, group: tuple[int, ...], sets: list[list[int]]) -> Mismatch:
    few, many = sets[-1], sets[0]
    ours, theirs = step.reports[few[0]].ops, step.reports[many[0]].ops
    pairs = list(zip_longest(_kinds(ours), _kinds(theirs)))
    number = next(n for n, (left, right) in enumerate(pairs) if left != right)
    after = next((each.parameter for each in reversed(ours[:number]) if each.parameter), "")
    here = f", the first after {after} is used" if after else ""
    return _mismatch(
        step,
        group,
        few,
        f"op {number} of the forward pass in step {step.step} is {_text(ours, number)} on "
        f"{ranks_text(few)} and {_text(theirs, number)} on {ranks_text(many)}{here}",
        {"index": number, "after": after},
        after,
    )


def _other_ops(step: JobStep, group: tuple[int, ...], sets: list[list[int]]) -> Mismatch:
    few, many = sets[-1], sets[0]
    ours = {each.op for each in step.reports[few[0]].ops}
    theirs = {each.op for each in step.reports[many[0]].ops}
    only, lacks = sorted(ours - theirs), sorted(theirs - ours)
    parts = [f"runs {', '.join(only[:3])}"] if only else []
    parts += [f"does not run {', '.join(lacks[:3])}"] if lacks else []
    return _mismatch(
        step,
        group,
        few,
        f"{ranks_text(few)} {' and '.join(parts)}, other than {ranks_text(many)}, in step "
        f"{step.step} and in later steps",
        {"only_here": only, "missing": lacks},
        "",
    )


def _mismatch(
    step: JobStep,
    group: tuple[int, ...],
    few: list[int],
    message: str,
    evidence: dict[str, object],
    after: str,
    dumped_step: int | None = None,
) -> Mismatch:
    """``dumped_step``: of ops from a dump, whose last step may be the only one."""
    return Mismatch(
        finding(
            "ops-differ",
            "supported",
            message,
            step=step.step if dumped_step is None else dumped_step,
            ranks=few,
            evidence=evidence,
            advice="look for a branch that depends on the rank, and let all ranks of the group run "
            "the same ops",
            places=(step.reports[few[0]].loss_source, after),
        ),
        subject=str(group),
        strikes=3,
        explained_by=frozenset({"decisions-differ"}),
        is_sure_at_end=dumped_step is not None,
    )


def _text(ops: Sequence[RankOp], number: int) -> str:
    if number >= len(ops):
        return "missing"
    op = ops[number]
    return f"{op.op} {'x'.join(map(str, op.shape))}".strip()


CHECK = StepCheck(
    "ops-differ",
    judge,
    "Ops without a gradient. Over data-parallel ranks: the order and the number of ops, because "
    "batches differ; networks with experts of single ranks or with unused parameters.",
    is_sampled=True,
)
