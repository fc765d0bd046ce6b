"""Gradients were exchanged, but the result is not the mean over ranks and micro-batches.

Projections of gradients are linear. If the gradient that is used is the mean, its projections are
the means of the projections of the local gradients, up to rounding. Otherwise their ratio tells
what was computed instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, PlacedTensor, gradients_by_name
from sonde.ranks.report import RankGradient

_CLOSE = 1e-3
"""The relative distance from a named ratio that rounding in low precision may cause."""


@dataclass(frozen=True, slots=True)
class _Reduced:
    """The gradient of one parameter: what was used of it on one rank, or on all shards together,
    and what each rank computed."""

    used: Sequence[float]
    computed: Sequence[RankGradient]


def judge(step: JobStep) -> Iterator[Mismatch]:
    by_ranks: dict[tuple[int, ...], list[_Reduced]] = {}
    for ranks, reduced in (*_of_replicas(step), *_of_shards(step)):
        if all(each.is_finite and each.is_local_finite for each in reduced.computed):
            by_ranks.setdefault(ranks, []).append(reduced)
    for ranks, members in by_ranks.items():
        if (found := _named(step, ranks, members)) is not None:
            yield found


def _of_replicas(step: JobStep) -> Iterator[tuple[tuple[int, ...], _Reduced]]:
    """Of parameters that all ranks have, by these."""
    gradients = gradients_by_name(step)
    for placed in step.placed("replicated"):
        known = _known(gradients, placed.tensor.name, placed.ranks)
        is_whole = bool(known) and not any(each.is_shard for each in known)
        if is_whole and len({each.digest for each in known}) == 1:
            yield placed.ranks, _Reduced(known[0].used, known)


def _of_shards(step: JobStep) -> Iterator[tuple[tuple[int, ...], _Reduced]]:
    """Of parameters that FSDP2 has divided, by the ranks over which it takes the mean: those that
    have the shards, and the replicas of these (HSDP)."""
    gradients = gradients_by_name(step)
    for placed in step.placed("sharded"):
        ranks = _reduced_over(step, placed)
        known = _known(gradients, placed.tensor.name, ranks)
        shards = _known(gradients, placed.tensor.name, placed.ranks)
        if known and shards and all(each.is_shard for each in known):
            parts = zip(*(each.used for each in shards), strict=True)
            yield ranks, _Reduced([math.fsum(each) for each in parts], known)


def _reduced_over(step: JobStep, placed: PlacedTensor) -> tuple[int, ...]:
    found = set(placed.ranks)
    for rank in placed.ranks:
        description = step.descriptions[rank]
        for tensor in description.tensors:
            for each in tensor.placements if tensor.name == placed.tensor.name else ():
                if each.kind == "replicated" and description.roles.get(each.group) == "data":
                    found.update(description.groups.get(each.group, ()))
    return tuple(sorted(found))


def _known(
    gradients: dict[str, dict[int, RankGradient]], name: str, ranks: tuple[int, ...]
) -> list[RankGradient]:
    """The gradients of a parameter on all of ``ranks``; empty if one has none."""
    found = [gradients.get(name, {}).get(rank) for rank in ranks]
    known = [each for each in found if each is not None and each.used and each.local]
    return known if len(known) == len(ranks) else []


def _named(step: JobStep, ranks: tuple[int, ...], members: Sequence[_Reduced]) -> Mismatch | None:
    used = [value for each in members for value in each.used]
    mean = [value for each in members for value in _mean([g.local for g in each.computed])]
    last = [value for each in members for value in _mean([g.last for g in each.computed])]
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
    is_sampled=True,
    also=(
        "gradients-summed-not-averaged",
        "gradients-divided-twice",
        "gradients-multiplied",
        "only-last-micro-batch",
    ),
)
