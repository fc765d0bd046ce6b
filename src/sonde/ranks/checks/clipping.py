"""Ranks clip gradients differently: only some of them, or by different norms."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import WINDOW_OF_SAMPLED, Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, split

_TOLERANCE = 1e-5
_FACTOR_TOLERANCE = 2e-3
"""Of the factor, which is measured on gradients that may have low precision."""
_ALIKE = 0.01
"""How far gradients that are multiplied by one number may be from that, relative to them."""
_EPSILON = 1e-6
"""What ``clip_grad_norm_`` adds to the norm."""


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in (*step.groups("data"), *step.groups("tensor")):
        calls = {rank: len(step.reports[rank].clips) for rank in group}
        sets = split(calls)
        if len(sets) > 1:
            yield _called(step, group, calls, sets)
            continue
        yield from _multiplied(step, group)
        for number in range(calls[group[0]]):
            limits = {rank: step.reports[rank].clips[number].limit for rank in group}
            if _are_apart(limits):
                yield _other_limits(step, group, limits, number)
                break
            norms = {rank: step.reports[rank].clips[number].norm for rank in group}
            if _are_apart(norms):
                yield _different(step, group, norms, number)
                break
    yield from _wrong_norms(step)


def _are_apart(values: dict[int, float]) -> bool:
    """Whether numbers of ranks differ by more than rounding; not if one is NaN: unknown."""
    least, most = min(values.values()), max(values.values())
    return most - least > _TOLERANCE * abs(most)


def _multiplied(step: JobStep, group: tuple[int, ...]) -> Iterator[Mismatch]:
    """Gradients that the program multiplies with code of its own after the last backward pass."""
    factors = {rank: found for rank in group if (found := _own_factor(step, rank)) is not None}
    if len(factors) < len(group) or all(each == 1.0 for each in factors.values()):
        return
    least, most = min(factors.values()), max(factors.values())
    if most - least <= _FACTOR_TOLERANCE * most:
        return
    sets = split(factors, key=lambda each: each == 1.0)
    is_on_all = len(sets) == 1
    few = split(factors)[-1] if is_on_all else sets[-1]
    listed = ", ".join(f"rank {rank}: {each:.4g}" for rank, each in list(factors.items())[:4])
    own = step.reports[few[0]]
    between = " and ".join(each for each in (own.loss_source, own.source) if each)
    yield Mismatch(
        finding(
            "clip-norms-differ" if is_on_all else "clip-on-one-rank",
            "established",
            f"the ranks multiply gradients by different factors between {between} in step "
            f"{step.step} ({listed})",
            step=step.step,
            ranks=few,
            evidence={"factors": factors},
            advice="clip on every rank, by the norm over all ranks, in which each shard and each "
            "replicated parameter counts once: clip_grad_norm_ computes it",
            places=(own.source, own.loss_source),
        ),
        subject=f"factors {group}",
        strikes=2,
        window=WINDOW_OF_SAMPLED,
    )


def _own_factor(step: JobStep, rank: int) -> float | None:
    """By what a rank has multiplied all its gradients; 1.0: it has not. None if it has changed them
    in another way, or not all alike."""
    ratios = []
    for each in step.reports[rank].gradients:
        square = math.fsum(value * value for value in each.left)
        if not each.left:
            ratios += [1.0] if any(each.used) else []
        elif square > 0 and each.is_finite:
            pairs = list(zip(each.used, each.left, strict=True))
            ratio = math.fsum(used * left for used, left in pairs) / square
            rest = math.fsum((used - ratio * left) ** 2 for used, left in pairs)
            if ratio <= 0 or rest > (_ALIKE * ratio) ** 2 * square:
                return None
            ratios.append(ratio)
    if not ratios or max(ratios) - min(ratios) > _ALIKE * max(ratios):
        return None
    return 1.0 if all(each == 1.0 for each in ratios) else math.fsum(ratios) / len(ratios)


def _wrong_norms(step: JobStep) -> Iterator[Mismatch]:
    """Calls that clip by another norm than that of the gradients of all ranks, in which each shard
    and each replicated parameter counts once."""
    wrong: dict[str, dict[int, tuple[float, float]]] = {}
    for rank, report in step.reports.items():
        for number, clip in enumerate(report.clips):
            norm = _whole_norm(step, rank, number)
            if norm is None or not clip.factor:
                continue
            expected = min(1.0, clip.limit / (norm + _EPSILON))
            if abs(clip.factor - expected) > _FACTOR_TOLERANCE * expected:
                used = clip.limit / clip.factor
                wrong.setdefault(clip.source, {})[rank] = (norm, used)
    for line, ranks in wrong.items():
        yield _wrong(step, line, ranks)


def _whole_norm(step: JobStep, rank: int, number: int) -> float | None:
    """The norm over all ranks, from the squares that they report; None if one has not."""
    total = 0.0
    for group, square in step.reports[rank].clips[number].squares.items():
        members = step.descriptions[rank].groups.get(group, ()) if group else ()
        for other in members or (rank,):
            clips = step.reports[other].clips if other in step.reports else ()
            if number >= len(clips) or (members and group not in clips[number].squares):
                return None
            total += clips[number].squares[group] if members else square
    return math.sqrt(total) if math.isfinite(total) and total > 0 else None


def _wrong(step: JobStep, line: str, ranks: dict[int, tuple[float, float]]) -> Mismatch:
    norm, used = ranks[min(ranks)]
    return Mismatch(
        finding(
            "clip-norm-wrong",
            "established",
            f"{ranks_text(ranks)} {'clips' if len(ranks) == 1 else 'clip'} gradients at {line} in "
            f"step {step.step} as if their norm was {used:.6g}; over all ranks it is {norm:.6g}",
            step=step.step,
            ranks=sorted(ranks),
            evidence={"norms": {rank: each[0] for rank, each in ranks.items()}, "used": used},
            advice="count each shard once and each replicated parameter once in the norm over all "
            "ranks",
            places=(line,),
        ),
        subject=f"wrong {line}",
        strikes=2,
        window=WINDOW_OF_SAMPLED,
        explained_by=frozenset({"clip-norms-differ"}),
    )


def _called(
    step: JobStep, group: tuple[int, ...], calls: dict[int, int], sets: list[list[int]]
) -> Mismatch:
    few = sets[-1]
    clipping = max(group, key=lambda rank: calls[rank])
    line = step.reports[clipping].clips[0].source
    fewest = min(calls.values())
    return Mismatch(
        finding(
            "clip-on-one-rank",
            "established",
            f"gradients are clipped at {line} on rank {clipping} ({_times(calls[clipping])} in "
            f"step {step.step}), and {_times(fewest) if fewest else 'not'} on "
            f"{ranks_text(rank for rank in group if calls[rank] == fewest)}",
            step=step.step,
            ranks=few,
            evidence={"calls": calls},
            advice=f"clip on every rank: take the call at {line} out of the condition",
            places=(line,),
        ),
        subject=f"calls {group}",
        strikes=2,
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _other_limits(
    step: JobStep, group: tuple[int, ...], limits: dict[int, float], number: int
) -> Mismatch:
    sets = split(limits)
    few, many = sets[-1], sets[0]
    line = step.reports[few[0]].clips[number].source
    return Mismatch(
        finding(
            "clip-norms-differ",
            "established",
            f"the ranks clip gradients to different limits in step {step.step}: "
            f"{limits[few[0]]:.6g} on {ranks_text(few)} at {line}, {limits[many[0]]:.6g} on "
            f"{ranks_text(many)}",
            step=step.step,
            ranks=few,
            evidence={"limits": limits},
            advice="clip to the same limit on every rank",
            places=(line, step.reports[many[0]].clips[number].source),
        ),
        subject=f"limits {group} {line}",
        strikes=2,
    )


def _different(
    step: JobStep, group: tuple[int, ...], norms: dict[int, float], number: int
) -> Mismatch:
    line = step.reports[group[0]].clips[number].source
    sets = split(norms)
    listed = ", ".join(f"rank {rank}: {norm:.6g}" for rank, norm in list(norms.items())[:4])
    return Mismatch(
        finding(
            "clip-norms-differ",
            "established",
            f"the ranks clip gradients at {line} by different norms in step {step.step} "
            f"({listed}), so each scales its gradients by another factor",
            step=step.step,
            ranks=sets[-1],
            evidence={"norms": norms},
            advice="compute the norm over all ranks, each shard once, before clipping; clip after "
            "the gradients were exchanged",
            places=(line,),
        ),
        subject=f"norms {group} {line}",
        strikes=2,
    )


CHECK = StepCheck(
    "clipping",
    judge,
    "Norms that agree to 1e-5; placements that are inferred.",
    also=("clip-on-one-rank", "clip-norms-differ", "clip-norm-wrong"),
)
