"""Judges the results of collectives: has every rank got what the ranks gave?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from sonde.core.finding import Finding
from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import finding
from sonde.ranks.job_step import split
from sonde.ranks.report import PROJECTIONS, CollectiveReport, CollectiveResult

_EPS: Final = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_ROUNDING: Final = 16.0
"""How many roundings of the norm the projection of a sum may be wrong, times log2 of the ranks."""
_SUMS: Final = PROJECTIONS + 1
"""The numbers of one part of a reduction: its projections and its norm."""
_Results = Mapping[int, CollectiveResult]
_Sums = Sequence[float]


def wrong_result(
    call: CollectiveReport, results: _Results, ranks: tuple[int, ...]
) -> Iterator[Finding]:
    """A finding if the results of all ``ranks`` of the group are not what they gave."""
    wrong = _wrong_ranks(call, results, ranks)
    what = {
        "all_reduce": "have another result than the other ranks",
        "broadcast": f"have not got what rank {call.peer} sent",
        "scatter": f"have not got what rank {call.peer} sent",
    }.get(call.kind, "have not got what the other ranks gave")
    evidence: dict[str, object] = {"sequence": call.sequence, "group": call.group}
    if not wrong and (sums := _wrong_sums(call, results, ranks)):
        wrong = sorted(sums)
        got, expected = sums[wrong[0]]
        evidence |= {"projection": got, "expected": expected}
        of = "what they gave" if len(wrong) > 1 else "what the ranks gave"
        what = f"have not got the {'mean' if call.reduce == 'AVG' else 'sum'} of {of}"
    if not wrong:
        return
    verb = what.replace("have", "has") if len(wrong) == 1 else what
    yield finding(
        "collective-result-wrong",
        "established",
        f"after {call.kind} #{call.sequence} at {call.source or 'an unknown line'}, in step "
        f"{call.step}, {ranks_text(wrong)} {verb}",
        step=call.step,
        ranks=wrong,
        evidence=evidence,
        advice=ADVICE,
        places=(call.source,),
    )


ADVICE: Final = (
    "look for a buffer that is used again before an asynchronous collective has ended "
    "(wait() is missing), then at the network and the hardware of the rank"
)


def _wrong_ranks(call: CollectiveReport, results: _Results, ranks: tuple[int, ...]) -> list[int]:
    """The ranks that have not got the elements that they should have, to the bit."""
    if call.kind == "all_reduce":
        sets = split(results, key=lambda each: each.outputs)
        return sorted(rank for each in sets[1:] for rank in each)
    if call.kind == "broadcast" and call.peer in results:
        sent = results[call.peer].inputs
        return [rank for rank, each in results.items() if each.outputs != sent]
    if call.kind in ("all_gather", "all_gather_into_tensor", "gather"):
        given = _not_empty(each for rank in ranks for each in results[rank].inputs[:1])
        getting = results if call.kind != "gather" else {call.peer: results.get(call.peer)}
        found = {rank: _not_empty(each.outputs) for rank, each in getting.items() if each}
        return [rank for rank, got in found.items() if got != given]
    if call.kind == "all_to_all":
        return _wrong_parts(results, ranks)
    if call.kind == "scatter" and call.peer in results:
        parts = results[call.peer].inputs
        pairs = zip(ranks, parts, strict=False)
        return [
            rank for rank, part in pairs if _not_empty(results[rank].outputs) != _not_empty([part])
        ]
    return []


def _not_empty(hashes: Iterable[int]) -> tuple[int, ...]:
    """Without those of tensors that have no elements."""
    return tuple(each for each in hashes if each)


def _wrong_parts(results: _Results, ranks: tuple[int, ...]) -> list[int]:
    """The ranks that have got another part than the one that was for them."""
    size = len(ranks)
    if any(len(each.inputs) != size or len(each.outputs) != size for each in results.values()):
        return []
    return [
        rank
        for place, rank in enumerate(ranks)
        if results[rank].outputs != tuple(results[other].inputs[place] for other in ranks)
    ]


def _wrong_sums(
    call: CollectiveReport, results: _Results, ranks: tuple[int, ...]
) -> dict[int, tuple[float, float]]:
    """By rank a projection of its result and that of the sum of what the ranks gave, if they differ
    by more than rounding does. Empty also for reductions that do not add."""
    if call.reduce not in ("SUM", "AVG") or call.dtype not in _EPS:
        return {}
    found = {}
    for place, rank in enumerate(ranks):
        if call.kind == "reduce" and rank != call.peer:
            continue
        begin = place * _SUMS if call.kind.startswith("reduce_scatter") else 0
        given = [each.given[begin : begin + _SUMS] for each in results.values()]
        if (pair := _wrong_sum(call, given, results[rank].got)) is not None:
            found[rank] = pair
    return found


def _wrong_sum(
    call: CollectiveReport, given: Sequence[_Sums], got: _Sums
) -> tuple[float, float] | None:
    """A projection of ``got`` and of the sum of ``given``, if they differ by more than rounding.
    Rounding errors of the elements have no part in the signs of a projection, so that they add up
    as in a norm. None also for NaN and Inf."""
    if len(got) < 2 or any(len(each) != len(got) for each in given):
        return None
    if not all(math.isfinite(value) for each in (*given, got) for value in each):
        return None
    parts = len(given) if call.reduce == "AVG" else 1
    size = math.fsum(each[-1] for each in given) / parts
    allowed = _ROUNDING * max(1.0, math.log2(len(given))) * _EPS[call.dtype] * size
    for number, value in enumerate(got[:-1]):
        expected = math.fsum(each[number] for each in given) / parts
        if abs(value - expected) > allowed:
            return value, expected
    return None
