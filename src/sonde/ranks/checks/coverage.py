"""A gradient is in no reducing collective of a step, or in several."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, gradients_by_name

_EFFECTS = frozenset(
    {
        "gradients-divided-twice",
        "gradients-multiplied",
        "gradients-not-exchanged",
        "gradients-partly-exchanged",
        "gradients-summed-not-averaged",
        "only-last-micro-batch",
    }
)
"""What such a fault does to gradients, which is reported instead where it can be seen."""


def judge(step: JobStep) -> Iterator[Mismatch]:
    gradients = gradients_by_name(step)
    groups: dict[tuple[int, ...], dict[str, int]] = {}
    for placed in step.placed("replicated"):
        name = placed.tensor.name
        known = [
            each.reductions for r, each in gradients.get(name, {}).items() if r in placed.ranks
        ]
        if len(known) < len(placed.ranks) or None in known or not step.is_replica(placed):
            continue
        groups.setdefault(placed.ranks, {})[name] = max(each or 0 for each in known)
    for ranks, counts in groups.items():
        if ranks in step.groups("tensor") or not any(counts.values()):
            continue  # Nothing is exchanged, or in a way that is not seen.
        for names, kind in (
            ([name for name, count in counts.items() if count == 0], "parameter-not-reduced"),
            ([name for name, count in counts.items() if count > 1], "gradient-reduced-twice"),
        ):
            if names:
                yield _mismatch(step, ranks, names, len(counts), kind)


def _mismatch(
    step: JobStep, ranks: tuple[int, ...], names: list[str], total: int, kind: str
) -> Mismatch:
    shown = f"{', '.join(names[:3])}{' and others' if len(names) > 3 else ''}"
    if kind == "parameter-not-reduced":
        what = f"are in no reducing collective of {ranks_text(ranks)}, although others are"
        advice = (
            "wrap the model after its last parameter was made, replaced or set to requires_grad, "
            "and reduce what the wrapper does not know"
        )
    else:
        what = f"are in several reducing collectives of {ranks_text(ranks)}"
        advice = "exchange each gradient once: the wrapper does it already, or a loop does it twice"
    return Mismatch(
        finding(
            kind,
            "established",
            f"the gradients of {len(names)} of {total} parameters {what}, in step {step.step}: "
            f"{shown}",
            step=step.step,
            ranks=ranks,
            evidence={"parameters": names[:20], "compared": total},
            advice=advice,
            places=(*names[:3], step.reports[ranks[0]].source),
            parameter=names[0] if len(names) == 1 else None,
        ),
        subject=f"{kind} {ranks}",
        strikes=4,
        explained_by=_EFFECTS,
        is_sure_at_end=True,
    )


CHECK = StepCheck(
    "coverage",
    judge,
    "Gradients of DTensors; steps in which the program reduces a buffer of its own; faults that "
    "gradients show.",
    is_sampled=True,
    also=("parameter-not-reduced", "gradient-reduced-twice"),
)
