"""Tensors that should be the same on all ranks of a group differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sonde.core.finding import EvidenceStatus
from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.between_samples import spot_table, steps_of_all
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, PlacedTensor, gradients_by_name, split, step_name
from sonde.ranks.report import TensorKind

_CAUSES = frozenset(
    {
        "backward-passes-differ",
        "clip-norms-differ",
        "clip-on-one-rank",
        "collectives-differ",
        "decisions-differ",
        "gradients-not-exchanged",
        "gradients-partly-exchanged",
        "parameter-not-reduced",
        "random-states-differ",
        "ranks-differ-at-init",
        "replicated-gradient-not-reduced",
        "tensor-ranks-batches-differ",
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


_COPIES = (
    "make the copy when all ranks have the same weights (after DDP was made, or with one seed), "
    "and update it on each of them in the same steps, from weights after the exchange"
)
_PLURALS: dict[TensorKind, str] = {
    "parameter": "parameters",
    "buffer": "buffers",
    "state": "optimizer states",
    "copy": "parameters of a copy",
}


@dataclass(slots=True)
class _Group:
    """The tensors of one kind that are replicated over the same ranks, and those that differ."""

    compared: list[PlacedTensor] = field(default_factory=list)
    different: list[tuple[PlacedTensor, list[list[int]]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Since:
    """``step``: the first after which replicas were seen to differ. ``last_equal``: the last one
    after which all elements were the same, ``last_spots``: in which the few that are hashed in
    every step were; None: unknown."""

    step: int
    last_equal: int | None = None
    last_spots: int | None = None


def judge(step: JobStep) -> Iterator[Mismatch]:
    before = None if step.previous is None else _compared(step.previous)
    for key, group in _compared(step).items():
        if group.different:
            known = None if before is None or key not in before else before[key]
            yield _mismatch(step, *_since(step, group, known))


def _compared(step: JobStep) -> dict[tuple[str, tuple[int, ...]], _Group]:
    """By kind of tensor and ranks: what differs."""
    table = step.digests
    exchanged = _exchanged(step)
    found: dict[tuple[str, tuple[int, ...]], _Group] = {}
    for placed in step.placed("replicated"):
        digests = table.of(placed.tensor.name, placed.ranks)
        if len(digests) < 2 or not (step.is_replica(placed) or _key(placed) in exchanged):
            continue
        group = found.setdefault((placed.tensor.kind, placed.ranks), _Group())
        group.compared.append(placed)
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
    """The parameters whose ranks use the same gradient, although they computed different ones, in
    this compared step or the one before: they are meant to be replicas. Others of the same ranks
    need not be, such as experts."""
    found = set() if step.previous is None else _exchanged(step.previous)
    gradients = gradients_by_name(step)
    for placed in step.placed("replicated"):
        known = {
            r: g for r, g in gradients.get(placed.tensor.name, {}).items() if r in placed.ranks
        }
        is_different = len(split(known, key=lambda each: each.local_digest)) > 1
        if is_different and len(split(known, key=lambda each: each.digest)) == 1:
            found.add(_key(placed))
    return found


def judge_last_steps(step: JobStep) -> Iterator[Mismatch]:
    """What differs in the steps after the last compared one, which is ``step.previous``, and still
    does in the last of them."""
    for group in () if step.previous is None else _compared(step.previous).values():
        placed = group.compared[0]
        if placed.tensor.kind != "parameter" or group.different:
            continue
        first, since = _first_spots(step, group, step.step)
        last = steps_of_all(step.between, placed.ranks, step.step)[-1:]
        if first is None or not all(_differ(step, group, number) for number in last):
            continue
        if (found := _mismatch(step, first, since)).is_sure_at_end:
            yield found


def _since(step: JobStep, group: _Group, before: _Group | None) -> tuple[_Group, _Since]:
    """What differed first, and since when."""
    if step.step < 0 or _differed_at_start(step, group.different[0][0]):
        return group, _Since(-1)
    if step.previous is None or before is None or before.different:
        return group, _Since(step.step)
    first, since = _first_spots(step, group, step.previous.step)
    return (group, replace(since, step=step.step)) if first is None else (first, since)


def _first_spots(step: JobStep, group: _Group, after: int) -> tuple[_Group | None, _Since]:
    """What differed first in the steps after ``after``, in which all was equal; None if nothing."""
    last_spots = None
    for number in steps_of_all(step.between, group.compared[0].ranks, after):
        if different := _differ(step, group, number):
            return _Group(group.compared, different), _Since(number, after, last_spots)
        last_spots = number
    return None, _Since(after, after, last_spots)


def _differ(
    step: JobStep, group: _Group, number: int
) -> list[tuple[PlacedTensor, list[list[int]]]]:
    """The tensors of which the hashed elements differ after step ``number``."""
    ranks = group.compared[0].ranks
    table = spot_table(step.between, step.descriptions, ranks, number)
    sets = [(each, split(table.get(each.tensor.name, {}))) for each in group.compared]
    return [each for each in sets if len(each[1]) > 1]


def _mismatch(step: JobStep, group: _Group, since: _Since) -> Mismatch:
    placed, sets = group.different[0]
    kind = placed.tensor.kind
    is_initial = since.step < 0
    # Gradients that are exchanged show that the ranks are meant to have the same weights.
    is_sure = not placed.tensor.is_inferred or _key(placed) in _exchanged(step)
    status: EvidenceStatus = "established" if is_sure else "supported"
    if (kind == "buffer" and placed.tensor.is_inferred) or (kind == "copy" and is_initial):
        # A rank may count or average its own data in a buffer, or go on with a copy of its own.
        is_sure, status = False, "hypothesis"
    name = placed.tensor.name
    return Mismatch(
        finding(
            "ranks-differ-at-init" if is_initial else "replicas-differ",
            status,
            _message(group, since),
            step=max(since.step, 0),
            ranks=sets[-1],
            evidence={
                "tensor": name,
                "group": placed.group,
                "different": len(group.different),
                "compared": len(group.compared),
                "last_equal_step": since.last_equal,
                "last_step_with_equal_spots": since.last_spots,
                "sets": [list(each) for each in sets],
            },
            advice=_advice(kind, is_initial=is_initial),
            places=(name, step.reports[sets[-1][0]].source),
            parameter=name if kind == "parameter" else None,
        ),
        subject=f"{kind} {placed.ranks}",
        strikes=1 if is_initial else 4,
        explained_by=_explained_by(kind, is_initial=is_initial),
        is_sure_at_end=is_sure,
    )


def _advice(kind: TensorKind, *, is_initial: bool) -> str:
    if kind == "copy":
        return _COPIES
    return _AT_START if is_initial else _BUFFERS if kind == "buffer" else _LATER


def _explained_by(kind: TensorKind, *, is_initial: bool) -> frozenset[str]:
    """A copy of weights differs as they do."""
    own = frozenset({"ranks-differ-at-init", "replicas-differ"} if kind == "copy" else ())
    return own if is_initial else own | _CAUSES


def _message(group: _Group, since: _Since) -> str:
    placed, sets = group.different[0]
    few = sets[-1]
    what = _PLURALS[placed.tensor.kind]
    before = "" if since.last_equal is None else f"; they were equal {step_name(since.last_equal)}"
    if since.last_spots is not None:
        before += (
            f", and {step_name(since.last_spots)} in the few elements that are compared more often"
        )
    return (
        f"{ranks_text(few)} {'has' if len(few) == 1 else 'have'} another {placed.tensor.name} than "
        f"{ranks_text(sets[0])} {step_name(since.step)}: {len(group.different)} of "
        f"{len(group.compared)} {what} differ{before}"
    )


CHECK = StepCheck(
    "replicas-differ",
    judge,
    "Statistics of BatchNorm, except right after DDP has broadcast them; other buffers that were "
    "different at the start and that nothing keeps equal.",
    is_sampled=True,
    also=("ranks-differ-at-init",),
)
