"""Gradients were exchanged, but the result is not the mean over ranks and micro-batches.

Projections of gradients are linear. If the gradient that is used is the mean, its projections are
the means of the projections of the local gradients, up to rounding. Otherwise their ratio tells
what was computed instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, gradients_by_name, split
from sonde.ranks.report import RankGradient

_CLOSE = 1e-3
"""The relative distance from a named ratio that rounding in low precision may cause."""


def judge(step: JobStep) -> Iterator[Mismatch]:
    gradients = gradients_by_name(step)
    by_ranks: dict[tuple[int, ...], list[dict[int, RankGradient]]] = {}
    for placed in step.placed("replicated"):
        known = {
            rank: each
            for rank, each in gradients.get(placed.tensor.name, {}).items()
            if rank in placed.ranks and each.used and each.local
        }
        is_whole = set(known) == set(placed.ranks)
        is_finite = all(each.is_finite and each.is_local_finite for each in known.values())
        if is_whole and is_finite and len(split(known, key=lambda each: each.digest)) == 1:
            by_ranks.setdefault(placed.ranks, []).append(known)
    for ranks, members in by_ranks.items():
        if (found := _named(step, ranks, members)) is not None:
            yield found


def _named(
    step: JobStep, ranks: tuple[int, ...], members: Sequence[dict[int, RankGradient]]
) -> Mismatch | None:
    used = [value for each in members for value in each[ranks[0]].used]
    mean = [value for each in members for value in _mean([g.local for g in each.values()])]
    last = [value for each in members for value in _mean([g.last for g in each.values()])]
    ratio = _ratio(used, mean)
    if ratio is not None and abs(ratio - 1) <= _CLOSE:
        return None
    count = len(ranks)
    passes = max(step.reports[rank].backward_passes for rank in ranks)
    scaled = any(step.reports[rank].is_loss_scaled for rank in ranks)
    evidence: dict[str, object] = {"ratio": ratio, "ranks_of_group": count, "passes": passes}
    if ratio is not None and _is_near(ratio, count):
        if scaled:  # The program may have divided the loss by the number of ranks.
            return None
        kind = "gradients-summed-not-averaged"
        what = f"the sum over {count} ranks, {ratio:.4g} times their mean"
        advice = f"divide by the number of ranks after all_reduce, or use ReduceOp.AVG ({count})"
    elif ratio is not None and _is_near(ratio, 1 / count):
        kind = "gradients-divided-twice"
        what = f"1/{count} of their mean over {count} ranks"
        advice = "the wrapper averages already: do not divide the gradients or the loss again"
    elif passes > 1 and (of_last := _ratio(used, last)) is not None and _is_near(of_last, 1):
        kind = "only-last-micro-batch"
        what = f"that of the last of {passes} backward passes"
        advice = "exchange what all backward passes of the step accumulated, not the last one"
    elif passes > 1 and ratio is not None and _is_near(ratio, _power(ratio)) and ratio > 1:
        kind = "gradients-multiplied"
        what = f"{_power(ratio):g} times their mean: each of {passes} backward passes exchanges "
        what += "what was exchanged before"
        advice = "exchange gradients once, in the last backward pass of a step (no_sync() before)"
    else:
        return None
    return Mismatch(
        finding(
            kind,
            "supported" if kind == "gradients-summed-not-averaged" else "established",
            f"the gradient that {ranks_text(ranks)} use in step {step.step} is {what}",
            step=step.step,
            ranks=ranks,
            evidence=evidence,
            advice=advice,
            places=(step.reports[ranks[0]].source,),
        ),
        subject=f"{kind} {ranks}",
        strikes=3,
    )


def _mean(rows: Sequence[Sequence[float]]) -> list[float]:
    return [math.fsum(values) / len(rows) for values in zip(*rows, strict=False)]


def _ratio(used: Sequence[float], expected: Sequence[float]) -> float | None:
    """``used`` as a multiple of ``expected``; None if it is not a multiple."""
    if not used or len(used) != len(expected):
        return None
    square = math.fsum(value * value for value in expected)
    size = math.fsum(value * value for value in used)
    if not square or not size:
        return None
    ratio = math.fsum(u * e for u, e in zip(used, expected, strict=True)) / square
    rest = math.fsum((u - ratio * e) ** 2 for u, e in zip(used, expected, strict=True))
    return ratio if rest <= size * _CLOSE**2 else None


def _is_near(ratio: float, value: float) -> bool:
    return abs(ratio - value) <= 5 * _CLOSE * abs(value)


def _power(ratio: float) -> float:
    """The power of two next to ``ratio``."""
    return float(2.0 ** round(math.log2(ratio))) if ratio > 0 else 0.0


CHECK = StepCheck(
    "gradient-reduction",
    judge,
    "Gradients that the program changes itself, so that they are no multiple of the mean; a sum "
    "over ranks of losses that the program divides.",
    also=(
        "gradients-summed-not-averaged",
        "gradients-divided-twice",
        "gradients-multiplied",
        "only-last-micro-batch",
    ),
)
