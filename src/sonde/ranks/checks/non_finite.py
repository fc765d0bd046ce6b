"""NaN or Inf: which rank made it, and which ranks got it by the exchange of gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, ranks_text
from sonde.ranks.report import StepReport


def judge(step: JobStep) -> Iterator[Mismatch]:
    if step.step < 0:
        return
    makers = {rank: why for rank, each in step.reports.items() if (why := _made_here(each))}
    if not makers:
        return
    got = [rank for rank, each in step.reports.items() if rank not in makers and _has_got(each)]
    first = min(makers)
    source = step.reports[first].loss_source or step.reports[first].source
    reached = (
        f"; it reached {ranks_text(got)} through the exchange of gradients"
        if got
        else ""
        if len(makers) == len(step.reports)
        else "; the other ranks are finite"
    )
    yield Mismatch(
        finding(
            "non-finite-on-rank",
            "established",
            f"{ranks_text(makers)} made NaN or Inf in step {step.step}: {makers[first]}{reached}",
            step=step.step,
            ranks=sorted(makers),
            evidence={"made_by": sorted(makers), "got_by": got},
            advice="run that rank with --guard or --overflow: Sonde then names the op and the line",
            places=(source,),
        ),
        subject="non-finite",
    )


def _made_here(report: StepReport) -> str:
    """What of this rank's own work is not finite; empty if nothing is."""
    if report.loss is not None and not math.isfinite(report.loss):
        return f"the loss of rank {report.rank} is {report.loss:g}"
    names = [each.name for each in report.gradients if not each.is_local_finite]
    if names:
        return (
            f"the gradient of {names[-1]} on rank {report.rank} is not finite before the exchange"
        )
    return ""


def _has_got(report: StepReport) -> bool:
    is_norm = report.grad_norm is not None and not math.isfinite(report.grad_norm)
    return is_norm or any(not each.is_finite for each in report.gradients)


CHECK = StepCheck(
    "non-finite-on-rank",
    judge,
    "Steps that a GradScaler skips and handles.",
)
