"""NaN or Inf: which rank made it, in which op and line, and which collective gave it to others."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, ranks_text
from sonde.ranks.report import OriginOnRank, StepReport


def judge(step: JobStep) -> Iterator[Mismatch]:
    if step.step < 0:
        return
    makers = {rank: why for rank, each in step.reports.items() if (why := _made_here(each))}
    if not makers:
        return
    got = [rank for rank, each in step.reports.items() if rank not in makers and _has_got(each)]
    first = min(makers)
    report = step.reports[first]
    origin = report.origin or OriginOnRank()
    carrier = _carrier(step, got or list(makers))
    reached = (
        f"; it reached {ranks_text(got)} through {_carrier_text(carrier)}"
        if got
        else ""
        if len(makers) == len(step.reports)
        else "; the other ranks are finite"
    )
    yield Mismatch(
        finding(
            "non-finite-on-rank",
            "established",
            f"{ranks_text(makers)} made NaN or Inf in step {step.step}{makers[first]}{reached}",
            step=step.step,
            ranks=sorted(makers),
            evidence={
                "made_by": sorted(makers),
                "got_by": got,
                "op": origin.op,
                "line": origin.source,
                "collective": carrier.collective,
                "sequence": carrier.sequence,
            },
            advice=f"look at what {origin.op} gets on rank {first} in this step"
            if origin.op
            else "run with --overflow as well: Sonde then names the op and the line",
            places=(origin.source, report.loss_source or report.source),
        ),
        subject="non-finite",
    )


def _carrier(step: JobStep, ranks: list[int]) -> OriginOnRank:
    """The collective through which ranks exchanged the gradients of the step."""
    known = (step.reports[rank].origin for rank in ranks)
    return next((each for each in known if each is not None and each.collective), OriginOnRank())


def _carrier_text(carrier: OriginOnRank) -> str:
    if not carrier.collective:
        return "the exchange of gradients"
    return f"{carrier.collective} #{carrier.sequence}"


def _made_here(report: StepReport) -> str:
    """What of this rank's own work is not finite, as the end of a sentence; empty if nothing is."""
    origin = report.origin
    if origin is not None and origin.op:
        return f" in {origin.op}" + (f" at {origin.source}" if origin.source else "")
    if report.loss is not None and not math.isfinite(report.loss):
        return f": the loss of rank {report.rank} is {report.loss:g}"
    names = [each.name for each in report.gradients if not each.is_local_finite]
    if names:
        return (
            f": the gradient of {names[-1]} on rank {report.rank} is not finite before the exchange"
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
