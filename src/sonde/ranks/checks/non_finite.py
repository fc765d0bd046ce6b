"""NaN or Inf: which rank made it, in which op and line, and which collective gave it to others."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.collectives import bucket_text
from sonde.ranks.job_step import JobStep
from sonde.ranks.report import OriginOnRank, StepReport

_FORWARD = "a collective of the forward pass"


def judge(step: JobStep) -> Iterator[Mismatch]:
    if step.step < 0 or not any(map(_is_lost, step.reports.values())):
        return
    makers = {rank: why for rank, each in step.reports.items() if (why := _made_here(each))}
    later = {rank for group in step.groups("tensor") for rank in _later(step, group)}
    for rank in later:
        makers.pop(rank, None)
    if not makers:
        return
    got = [rank for rank, each in step.reports.items() if rank not in makers and _has_got(each)]
    first = min(makers)
    report = step.reports[first]
    origin = report.origin or OriginOnRank()
    carrier = _carrier(step, got or list(makers))
    is_forward = later.issuperset(got) and not origin.is_backward
    reached = (
        f"; it reached {ranks_text(got)} through "
        f"{_FORWARD if is_forward else _carrier_text(carrier)}"
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
                "bucket": [] if carrier.bucket is None else list(carrier.bucket.names),
            },
            advice=f"look at what {origin.op} gets on rank {first} in this step"
            if origin.op
            else "run with --overflow as well: Sonde then names the op and the line",
            places=(origin.source, report.loss_source or report.source),
        ),
        subject="non-finite",
    )


def _later(step: JobStep, group: tuple[int, ...]) -> list[int]:
    """Tensor-parallel ranks that had NaN or Inf in a later test than another rank of ``group``, or
    in none: a collective of the forward or backward pass brought them."""
    origins = {rank: step.reports[rank].origin for rank in group}
    orders = {rank: each.order for rank, each in origins.items() if each and each.order >= 0}
    least = min(orders.values(), default=-1)
    return [rank for rank in group if orders and orders.get(rank, least + 1) > least]


def _carrier(step: JobStep, ranks: list[int]) -> OriginOnRank:
    """The collective through which ranks exchanged the gradients of the step."""
    known = (step.reports[rank].origin for rank in ranks)
    return next((each for each in known if each is not None and each.collective), OriginOnRank())


def _carrier_text(carrier: OriginOnRank) -> str:
    if not carrier.collective:
        return "the exchange of gradients"
    return f"{carrier.collective} #{carrier.sequence}{bucket_text(carrier.bucket)}"


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


def _is_lost(report: StepReport) -> bool:
    """Whether NaN or Inf are in the loss or in a gradient; those of a mask get lost before."""
    return _has_got(report) or (report.loss is not None and not math.isfinite(report.loss))


def _has_got(report: StepReport) -> bool:
    is_norm = report.grad_norm is not None and not math.isfinite(report.grad_norm)
    return is_norm or any(not each.is_finite for each in report.gradients)


CHECK = StepCheck(
    "non-finite-on-rank",
    judge,
    "Steps that a GradScaler skips and handles.",
)
