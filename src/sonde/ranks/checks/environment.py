"""Ranks run in different environments: versions, settings, programs, the order of parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, split

_NUMBER = re.compile(r"[0-9]+")
_ADDRESS = re.compile(r"\b[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+\b")


def judge(step: JobStep) -> Iterator[Mismatch]:
    if step.step >= 0:
        return
    known = {rank: step.descriptions[rank].environment for rank in step.reports}
    for name in dict.fromkeys(name for each in known.values() for name in each):
        values = {rank: each.get(name, "not set") for rank, each in known.items()}
        sets = split(values)
        if len(sets) < 2:
            continue
        few, many = sets[-1], sets[0]
        yield _mismatch(
            f"{name} is {values[few[0]]} on {ranks_text(few)} and {values[many[0]]} on "
            f"{ranks_text(many)}",
            few,
            {"what": name, "values": values},
            f"start all ranks with the same {name.removeprefix('the ')}",
            (),
        )
    yield from _arguments(step)
    yield from _groups(step)
    for ranks, names in _parameters(step).items():
        if len(names) == len(ranks) and len(sets := split(names, key=tuple)) > 1:
            yield _other_parameters(names, sets[-1], sets[0])


def _arguments(step: JobStep) -> Iterator[Mismatch]:
    """Programs that were started with other arguments, but for the numbers of their ranks."""
    given = {rank: step.descriptions[rank].arguments for rank in step.reports}
    own = {rank: set(step.descriptions[rank].own_numbers) for rank in step.reports}
    count = max(map(len, given.values()), default=0)
    for place in range(count):
        values = {rank: _at(each, place) for rank, each in given.items()}
        sets = split(values)
        if len(sets) == 1 or _differ_by_rank(values, own):
            continue
        few, many = sets[-1], sets[0]
        before = _at(given[few[0]], place - 1) if place else ""
        after = f" (after {before})" if before.startswith("-") and "=" not in before else ""
        yield _mismatch(
            f"argument {place + 1} of the program{after} is {values[few[0]]} on {ranks_text(few)} "
            f"and {values[many[0]]} on {ranks_text(many)}",
            few,
            {"what": "the arguments", "place": place, "values": values},
            "start all ranks with the same arguments",
            (),
        )
        return  # Those after it may have moved.


def _at(arguments: Sequence[str], place: int) -> str:
    return arguments[place] if place < len(arguments) else "not given"


def _differ_by_rank(values: Mapping[int, str], own: Mapping[int, set[int]]) -> bool:
    """Whether an argument differs only by numbers that belong to the ranks (``--rank=1``,
    ``out/rank_1``), or is an address."""
    ranks = list(values)
    texts = {rank: _NUMBER.split(values[rank]) for rank in ranks}
    if any(texts[rank] != texts[ranks[0]] for rank in ranks):
        return False
    if all(_ADDRESS.search(each) for each in values.values()):
        return True
    numbers = {rank: _NUMBER.findall(values[rank]) for rank in ranks}
    return all(
        len({numbers[rank][place] for rank in ranks}) == 1
        or all(int(numbers[rank][place]) in own[rank] for rank in ranks)
        for place in range(len(numbers[ranks[0]]))
    )


def _groups(step: JobStep) -> Iterator[Mismatch]:
    """Groups of one name that have other ranks: the ranks lay out the job differently."""
    known: dict[str, tuple[int, tuple[int, ...]]] = {}
    for rank in sorted(step.reports):
        for name, members in step.descriptions[rank].groups.items():
            first, theirs = known.setdefault(name, (rank, members))
            if theirs != members and rank in theirs:
                yield _mismatch(
                    f"{name} has {ranks_text(members)} on rank {rank} and {ranks_text(theirs)} on "
                    f"rank {first}",
                    [rank],
                    {"what": f"the ranks of {name}", "ours": members, "theirs": theirs},
                    "make the same groups, in the same order, on all ranks",
                    (),
                )
                return


def _parameters(step: JobStep) -> dict[tuple[int, ...], dict[int, list[str]]]:
    """By ranks that have them in common, and by rank: the parameters, in their order. Those whose
    placement nobody has declared count if all ranks have them: others are of single ranks."""
    declared: dict[tuple[int, ...], dict[int, list[str]]] = {}
    inferred: dict[tuple[int, ...], dict[int, list[str]]] = {}
    for rank in step.reports:
        description = step.descriptions[rank]
        for tensor in description.tensors:
            found = inferred if tensor.is_inferred else declared
            for placement in tensor.placements if tensor.kind == "parameter" else ():
                ranks = description.groups.get(placement.group, ())
                found.setdefault(ranks, {}).setdefault(rank, []).append(tensor.name)
    alike = {r: each for r, each in inferred.items() if len({*map(frozenset, each.values())}) == 1}
    return alike | declared


def _other_parameters(names: dict[int, list[str]], few: list[int], many: list[int]) -> Mismatch:
    ours, theirs = names[few[0]], names[many[0]]
    if set(ours) == set(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        number = next(place for place, pair in pairs if pair[0] != pair[1])
        name = ours[number]
        what = (
            f"the optimizers have their parameters in another order on {ranks_text(few)} than on "
            f"{ranks_text(many)}: number {number} is {name}, not {theirs[number]}"
        )
    else:
        only = [each for each in ours if each not in set(theirs)]
        lacks = [each for each in theirs if each not in set(ours)]
        name = (only or lacks)[0]
        holders = few if only else many
        what = (
            f"the optimizers of {ranks_text(few)} and {ranks_text(many)} have different "
            f"parameters: {name} is on {ranks_text(holders)} only"
        )
    return _mismatch(
        what,
        few,
        {"what": "the parameters", "parameter": name, "counts": [len(ours), len(theirs)]},
        "give the optimizers of all ranks the same parameters in the same order: a list, no set",
        (name,),
    )


def _mismatch(
    message: str, ranks: list[int], evidence: dict[str, object], advice: str, places: Sequence[str]
) -> Mismatch:
    return Mismatch(
        finding(
            "environment-differs",
            "supported",
            message,
            step=0,
            ranks=ranks,
            evidence=evidence,
            advice=advice,
            places=places,
        ),
        subject=str(evidence["what"]),
    )


CHECK = StepCheck(
    "environment-differs",
    judge,
    "What differs by purpose, such as LOCAL_RANK; parameters of single ranks.",
)
