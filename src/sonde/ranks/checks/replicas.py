"""Tensors that should be the same on all ranks of a group differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sonde.core.finding import EvidenceStatus
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import (
    JobStep,
    PlacedTensor,
    gradients_by_name,
    ranks_text,
    split,
    step_name,
)

_CAUSES = frozenset(
    {
        "backward-passes-differ",
        "clip-norms-differ",
        "clip-on-one-rank",
        "collectives-differ",
        "decisions-differ",
        "gradients-not-exchanged",
        "gradients-partly-exchanged",
        "random-states-differ",
        "ranks-differ-at-init",
        "replicated-gradient-not-reduced",
    }
)
"""Faults that make replicas differ: each is reported instead of this one."""

_AT_START = (
    "give all ranks the same initial weights: the same seed before the model is made, or a "
    "broadcast from rank 0"
)
_LATER = (
    "look for what this rank does otherwise between the two steps: gradients that are not "
    "exchanged, clipping or a skipped step on one rank, a change of weights"
)
_BUFFERS = (
    "exchange what the ranks add to the buffer (all_reduce), or let DDP broadcast it "
    "(broadcast_buffers=True) if that of rank 0 is to count"
)


@dataclass(slots=True)
class _Group:
    """The tensors of one kind that are replicated over the same ranks."""

    total: int
    different: list[tuple[PlacedTensor, list[list[int]]]]


def judge(step: JobStep) -> Iterator[Mismatch]:
    before = None if step.previous is None else _compared(step.previous)
    for key, group in _compared(step).items():
        if group.different:
            known = None if before is None or key not in before else before[key]
            yield _mismatch(step, group, known, key[0])


def _compared(step: JobStep) -> dict[tuple[str, tuple[int, ...]], _Group]:
    """By kind of tensor and ranks: what differs."""
    table = step.digests
    exchanged = _exchanged(step)
    found: dict[tuple[str, tuple[int, ...]], _Group] = {}
    for placed in step.placed("replicated"):
        digests = table.of(placed.tensor.name, placed.ranks)
        if len(digests) < 2 or not (step.is_replica(placed) or _key(placed) in exchanged):
            continue
        group = found.setdefault((placed.tensor.kind, placed.ranks), _Group(0, []))
        group.total += 1
        if len(sets := split(digests)) > 1:
            group.different.append((placed, sets))
    return found


def _differed_at_start(step: JobStep, placed: PlacedTensor) -> bool:
    if step.initial is None:
        return False
    return len(split(step.initial.digests.of(placed.tensor.name, placed.ranks))) > 1


def _key(placed: PlacedTensor) -> tuple[str, tuple[int, ...]]:
    """The parameter, that of a state of the optimizer too, and the ranks that have it."""
    return placed.tensor.owner or placed.tensor.name, placed.ranks


def _exchanged(step: JobStep) -> set[tuple[str, tuple[int, ...]]]:
    """The parameters whose ranks use the same gradient, although they computed different ones: they
    are meant to be replicas. Others of the same ranks need not be, such as experts."""
    found = set()
    gradients = gradients_by_name(step)
    for placed in step.placed("replicated"):
        known = {
            r: g for r, g in gradients.get(placed.tensor.name, {}).items() if r in placed.ranks
        }
        is_different = len(split(known, key=lambda each: each.local_digest)) > 1
        if is_different and len(split(known, key=lambda each: each.digest)) == 1:
            found.add(_key(placed))
    return found


def _mismatch(step: JobStep, group: _Group, before: _Group | None, kind: str) -> Mismatch:
    placed, sets = group.different[0]
    initial = step.step < 0 or _differed_at_start(step, placed)
    last_equal = None
    is_known = not initial and before is not None and not before.different
    if is_known and step.previous is not None:
        last_equal = step.previous.step
    # Gradients that are exchanged show that the ranks are meant to have the same weights.
    is_sure = not placed.tensor.is_inferred or _key(placed) in _exchanged(step)
    status: EvidenceStatus = "established" if is_sure else "supported"
    if kind == "buffer" and placed.tensor.is_inferred:
        is_sure, status = False, "hypothesis"  # A rank may count or average its own data in it.
    when = -1 if initial else step.step
    name = placed.tensor.name
    return Mismatch(
        finding(
            "ranks-differ-at-init" if initial else "replicas-differ",
            status,
            _message(group, kind, when, last_equal),
            step=max(when, 0),
            ranks=sets[-1],
            evidence={
                "tensor": name,
                "group": placed.group,
                "different": len(group.different),
                "compared": group.total,
                "last_equal_step": last_equal,
                "sets": [list(each) for each in sets],
            },
            advice=_AT_START if initial else _BUFFERS if kind == "buffer" else _LATER,
            places=(name, step.reports[sets[-1][0]].source),
            parameter=name if kind == "parameter" else None,
        ),
        subject=f"{kind} {placed.ranks}",
        strikes=1 if initial else 4,
        explained_by=frozenset() if initial else _CAUSES,
        is_sure_at_end=is_sure,
    )


def _message(group: _Group, kind: str, when: int, last_equal: int | None) -> str:
    placed, sets = group.different[0]
    few = sets[-1]
    what = {"parameter": "parameters", "buffer": "buffers", "state": "optimizer states"}[kind]
    since = "" if last_equal is None else f"; they were equal {step_name(last_equal)}"
    return (
        f"{ranks_text(few)} {'has' if len(few) == 1 else 'have'} another {placed.tensor.name} than "
        f"{ranks_text(sets[0])} {step_name(when)}: {len(group.different)} of {group.total} "
        f"{what} differ{since}"
    )


CHECK = StepCheck(
    "replicas-differ",
    judge,
    "Statistics of BatchNorm, except right after DDP has broadcast them; other buffers that were "
    "different at the start and that nothing keeps equal.",
    is_sampled=True,
    also=("ranks-differ-at-init",),
)
