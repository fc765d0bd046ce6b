"""Gradients of replicated parameters differ between ranks when the optimizer uses them."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.checks.activations import first_unreduced
from sonde.ranks.job_step import JobStep, gradients_by_name, split
from sonde.ranks.report import RankGradient


def replicated_gradients(
    step: JobStep,
) -> dict[tuple[int, ...], tuple[list[str], list[str], bool]]:
    """By ranks, the replicated parameters whose gradients differ when the optimizer uses them, then
    those whose gradients are equal although the ranks computed different ones, and whether the
    placement is inferred."""
    gradients = gradients_by_name(step)
    groups: dict[tuple[int, ...], tuple[list[str], list[str], bool]] = {}
    for placed in step.placed("replicated"):
        known = {
            rank: each
            for rank, each in gradients.get(placed.tensor.name, {}).items()
            if rank in placed.ranks
        }
        if len(known) < 2 or not step.is_replica(placed):
            continue
        if not _were_different(step, known):
            continue  # The same data on all ranks: nothing tells whether they were exchanged.
        different, exchanged, _ = groups.setdefault(
            placed.ranks, ([], [], placed.tensor.is_inferred)
        )
        (exchanged if _are_equal(known) else different).append(placed.tensor.name)
    return groups


def _are_equal(known: dict[int, RankGradient]) -> bool:
    """Whether the ranks use the same gradient, or had the same one until the program changed it."""
    if len(split(known, key=lambda each: each.digest)) == 1:
        return True
    has_changed = any(each.left for each in known.values())
    return has_changed and len(split(known, key=lambda each: each.left or each.used)) == 1


def judge(step: JobStep) -> Iterator[Mismatch]:
    tensor_parallel = step.groups("tensor")
    for ranks, (different, exchanged, is_inferred) in replicated_gradients(step).items():
        if different and ranks in tensor_parallel:
            yield _not_reduced(step, ranks, different, exchanged)
        elif different:
            yield _mismatch(step, ranks, different, exchanged, is_inferred)
    sharded: dict[tuple[int, ...], list[str]] = {}
    for placed in step.placed("sharded"):
        if placed.tensor.kind == "parameter" and placed.tensor.is_trainable:
            sharded.setdefault(placed.ranks, []).append(placed.tensor.name)
    for ranks, names in sharded.items():
        if ranks not in tensor_parallel and _has_no_gradient(step, ranks, names):
            yield _none_exchanged(step, ranks, names)


def _has_no_gradient(step: JobStep, ranks: tuple[int, ...], sharded: list[str]) -> bool:
    """Whether no parameter has a gradient although each rank made backward passes: FSDP keeps what
    these computed until it exchanges it."""
    reports = [step.reports[rank] for rank in ranks]
    return step.is_sampled and all(
        each.backward_passes and not each.gradients and set(sharded) <= set(each.without_gradient)
        for each in reports
    )


def _none_exchanged(step: JobStep, ranks: tuple[int, ...], sharded: list[str]) -> Mismatch:
    return Mismatch(
        finding(
            "gradients-not-exchanged",
            "supported",
            f"none of the {len(sharded)} sharded parameters of {ranks_text(ranks)} has a gradient "
            f"when the optimizer uses it, after backward passes, in step {step.step}: the exchange "
            "is off",
            step=step.step,
            ranks=ranks,
            evidence={"parameters": sharded[:20], "different": len(sharded)},
            advice="call set_requires_gradient_sync(True) before the last backward pass of a step",
            places=(step.reports[ranks[0]].source, *sharded[:3]),
        ),
        subject=f"none {ranks}",
        strikes=3,
    )


def _were_different(step: JobStep, known: dict[int, RankGradient]) -> bool:
    """Whether the ranks computed different gradients. Where they are not known (FSDP computes them
    elsewhere), different batches tell."""
    if all(each.local_digest for each in known.values()):
        return len(split(known, key=lambda each: each.local_digest)) > 1
    return len(split({rank: step.reports[rank].batch_digest for rank in known})) > 1


def _mismatch(
    step: JobStep,
    ranks: tuple[int, ...],
    different: list[str],
    exchanged: list[str],
    is_inferred: bool,
) -> Mismatch:
    total = len(different) + len(exchanged)
    source = step.reports[ranks[0]].source
    if exchanged:
        kind = "gradients-partly-exchanged"
        message = (
            f"the gradients of {len(different)} of {total} parameters are not exchanged between "
            f"{ranks_text(ranks)}: {', '.join(different[:3])}"
            f"{' and others' if len(different) > 3 else ''}"
        )
        advice = (
            "these parameters are in no exchange: wrap the model after its last parameter was "
            "made or replaced, and reduce what the wrapper does not know"
        )
    else:
        kind = "gradients-not-exchanged"
        message = (
            f"{ranks_text(ranks)} use gradients of their own: those of all {total} parameters "
            "differ when the optimizer uses them"
        )
        advice = (
            "call the DDP or FSDP wrapper instead of the module inside it, leave no_sync() before "
            "the last backward pass of a step, or all_reduce the gradients"
        )
    running = dict.fromkeys(line for rank in ranks for line in step.reports[rank].unfinished)
    if running:
        line = next(iter(running))
        message += f", while the asynchronous collective at {line} is running"
        advice = f"call wait() on what {line} returns, before the optimizer's step"
    return Mismatch(
        finding(
            kind,
            "supported" if is_inferred and not running else "established",
            f"{message}, in step {step.step}",
            step=step.step,
            ranks=ranks,
            evidence={"parameters": different[:20], "different": len(different), "compared": total},
            advice=advice,
            places=(*running, source, *different[:3]),
            parameter=different[0] if len(different) == 1 else None,
        ),
        subject=str(ranks),
        strikes=3 if is_inferred else 2,
    )


def _not_reduced(
    step: JobStep, ranks: tuple[int, ...], different: list[str], equal: list[str]
) -> Mismatch:
    """A parameter that tensor-parallel ranks replicate gets a part of its gradient on each."""
    place = first_unreduced(step, ranks)
    why = f"; the gradient of the output of {place} is the first that differs" if place else ""
    advice = (
        "each rank has the part of the gradient that its shards give: all_reduce it in the "
        f"backward pass, where {place or 'the replicated value'} is given to the shards"
    )
    names = f"{', '.join(different[:3])}{' and others' if len(different) > 3 else ''}"
    return Mismatch(
        finding(
            "replicated-gradient-not-reduced",
            "established",
            f"the gradients of {names}, which tensor-parallel {ranks_text(ranks)} replicate, "
            f"differ in step {step.step}{why}",
            step=step.step,
            ranks=ranks,
            evidence={
                "parameters": different[:20],
                "different": len(different),
                "compared": len(different) + len(equal),
                "module": place,
            },
            advice=advice,
            places=(place, *different[:3], step.reports[ranks[0]].source),
            parameter=different[0] if len(different) == 1 else None,
        ),
        subject=str(ranks),
        strikes=2,
        explained_by=frozenset({"random-states-differ", "tensor-ranks-batches-differ"}),
    )


CHECK = StepCheck(
    "gradients-not-exchanged",
    judge,
    "Ranks that computed the same local gradients; parameters without a gradient.",
    is_sampled=True,
    also=("gradients-partly-exchanged", "replicated-gradient-not-reduced"),
)
