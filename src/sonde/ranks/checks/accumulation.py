"""Ranks accumulate different numbers of micro-batches, or not to the gradient of a whole batch."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import WINDOW_OF_SAMPLED, Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, split
from sonde.ranks.report import MicroBatch, StepReport

_RATIO = 1.5


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in step.groups("data"):
        passes = {rank: step.reports[rank].backward_passes for rank in group}
        sets = split(passes)
        if len(sets) > 1:
            yield _other_count(step, group, passes, sets)
    yield from _parts_of_batch(step)


def _other_count(
    step: JobStep, group: tuple[int, ...], passes: dict[int, int], sets: list[list[int]]
) -> Mismatch:
    few, many = sets[-1], sets[0]
    return Mismatch(
        finding(
            "backward-passes-differ",
            "established",
            f"{ranks_text(few)} made {passes[few[0]]} backward passes in step {step.step}, "
            f"{ranks_text(many)} {passes[many[0]]}",
            step=step.step,
            ranks=few,
            evidence={"passes": passes},
            advice="let all ranks accumulate the same number of micro-batches",
            places=(step.reports[few[0]].source,),
        ),
        subject=str(group),
        strikes=2,
    )


def _parts_of_batch(step: JobStep) -> Iterator[Mismatch]:
    """Accumulated micro-batches must give the gradient of the batch in one piece: all targets have
    one weight, and the weights of all parts add up to one."""
    known = {rank: _micro_batches(report) for rank, report in step.reports.items()}
    known = {rank: parts for rank, parts in known.items() if parts}
    weights = {rank: [1 / each.divisor for each in parts] for rank, parts in known.items()}
    uneven = [rank for rank, parts in known.items() if _spread(parts) > _RATIO]
    if uneven:
        yield _uneven(step, uneven, known[uneven[0]])
        return
    added = [
        rank
        for rank, each in weights.items()
        if all(weight == 1 for weight in each) and not _is_divided_later(step.reports[rank])
    ]
    if added:
        yield _added(step, added, known[added[0]])


def _micro_batches(report: StepReport) -> list[MicroBatch]:
    """Those of a step in which one line makes several passes, of means over known targets."""
    parts = report.micro_batches
    lines = {each.source for each in parts}
    is_known = all(each.targets and each.divisor > 0 for each in parts)
    return list(parts) if len(parts) > 1 and len(lines) == 1 and is_known else []


def _spread(parts: list[MicroBatch]) -> float:
    """How many times as much a target of one part counts as that of another."""
    weights = [1 / (each.divisor * (each.targets or 1)) for each in parts]
    return max(weights) / min(weights)


def _is_divided_later(report: StepReport) -> bool:
    """Whether the program changes the gradients after the backward passes."""
    return bool(report.clips) or any(each.left for each in report.gradients)


def _uneven(step: JobStep, ranks: list[int], parts: list[MicroBatch]) -> Mismatch:
    targets = [each.targets or 0 for each in parts]
    line = parts[0].source
    return Mismatch(
        finding(
            "accumulation-mean-of-means",
            "established",
            f"on {ranks_text(ranks)} the losses at {line} of step {step.step} are means over "
            f"{min(targets)} to {max(targets)} targets, and {len(parts)} such means are added up "
            f"with the same weight: a target counts up to {_spread(parts):.3g} times as much as "
            "another",
            step=step.step,
            ranks=ranks,
            evidence={"targets": targets, "divisors": [each.divisor for each in parts]},
            advice="sum the losses of a step and divide by the number of targets of all its "
            f"micro-batches (reduction='sum') at {line}",
            places=(line,),
        ),
        subject=f"uneven {line}",
        strikes=3,
        window=WINDOW_OF_SAMPLED,
    )


def _added(step: JobStep, ranks: list[int], parts: list[MicroBatch]) -> Mismatch:
    line = parts[0].source
    return Mismatch(
        finding(
            "accumulation-not-divided",
            "hypothesis",
            f"{len(parts)} micro-batches of step {step.step} are added up on {ranks_text(ranks)} "
            f"at {line}: the gradient is {len(parts)} times that of the same samples in one batch",
            step=step.step,
            ranks=ranks,
            evidence={"passes": len(parts)},
            advice=f"divide the loss at {line} by the number of micro-batches, unless the learning "
            "rate is chosen for their sum",
            places=(line,),
        ),
        subject=f"added {line}",
        strikes=3,
        window=WINDOW_OF_SAMPLED,
    )


CHECK = StepCheck(
    "backward-passes-differ",
    judge,
    "One step: the end of an epoch may be uneven. Losses that are not cross entropies with a mean.",
    also=("accumulation-mean-of-means", "accumulation-not-divided"),
)
