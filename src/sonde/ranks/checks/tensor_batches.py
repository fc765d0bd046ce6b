"""Ranks of tensor parallelism, which compute parts of one batch, read different ones."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import EvidenceStatus
from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.checks.gradients_exchanged import replicated_gradients
from sonde.ranks.job_step import JobStep, split


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in step.groups("tensor"):
        batches = {rank: step.reports[rank].batch_digest for rank in group}
        sets = split(batches)
        if len(sets) == 1 or not all(batches.values()):
            continue
        status = _status(step, group)
        if status is not None:
            yield _mismatch(step, group, sets, status)


def _status(step: JobStep, group: tuple[int, ...]) -> EvidenceStatus | None:
    """How sure it is that these ranks should have read the same; None: they need not, as where each
    gives the module its part of a sequence."""
    entries = [step.reports[rank].entry for rank in group]
    known = {each.digest for each in entries if each is not None and each.is_declared}
    if any(each is not None for each in entries):
        return "established" if len(known) > 1 else None
    different, _, _ = replicated_gradients(step).get(group, ([], [], False))
    return "supported" if different else None


def _mismatch(
    step: JobStep, group: tuple[int, ...], sets: list[list[int]], status: EvidenceStatus
) -> Mismatch:
    entry = step.reports[group[0]].entry
    given = "" if entry is None else f"; {entry.name} takes its input as replicated over them"
    return Mismatch(
        finding(
            "tensor-ranks-batches-differ",
            status,
            f"{ranks_text(sets[-1])} got another batch than {ranks_text(sets[0])} in step "
            f"{step.step}, although they compute parts of one batch (tensor parallelism){given}",
            step=step.step,
            ranks=sets[-1],
            evidence={"sets": sets, "group_ranks": list(group)},
            advice="give all ranks of a tensor-parallel group the same batches: take the rank in "
            "the data-parallel group for the sampler or the seed of the data, not the global rank",
            places=(step.reports[sets[-1][0]].loss_source, "" if entry is None else entry.name),
        ),
        subject=str(group),
        strikes=2,
    )


CHECK = StepCheck(
    "tensor-ranks-batches-differ",
    judge,
    "Inputs that the program shards over the group. Where no module takes a DTensor: ranks whose "
    "replicated parameters have equal gradients.",
    is_sampled=True,
)
