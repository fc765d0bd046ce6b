"""Compares the collectives of a group: do all ranks call the same, and did all get its result?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from sonde.core.finding import Finding
from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import finding
from sonde.ranks.job_step import split
from sonde.ranks.report import (
    CollectiveReport,
    CollectiveResult,
    CollectiveSource,
    GradientBucket,
)

UNEVEN: Final = frozenset({"all_to_all", "all_gather_uneven", "gather", "scatter"})
"""Collectives in which the ranks may give different numbers of elements."""
_ROOT_ONLY: Final = frozenset({"gather", "scatter"})
"""Collectives for which ranks other than the root have no input, or no output."""
_EPS: Final = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_ROUNDING: Final = 16.0
"""How many roundings of the norm the projection of a sum may be wrong, times log2 of the ranks."""
_MOST_OPEN: Final = 4096
"""Collectives of one group that wait for other ranks; beyond, the oldest are dropped."""


_Log = tuple[str, CollectiveSource]
"""A group, and who counts its collectives."""


class CollectiveLog:
    """The collectives of one job, until all ranks of their group have reported them."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[int, ...]] = {}
        self._open: dict[_Log, dict[int, dict[int, CollectiveReport]]] = defaultdict(dict)
        self._results: dict[str, dict[int, dict[int, CollectiveResult]]] = defaultdict(dict)
        self._seen: dict[tuple[str, int], CollectiveReport] = {}
        self._newest: dict[tuple[_Log, int], int] = {}
        self.last: dict[int, CollectiveReport] = {}
        self._broken: set[str] = set()

    def know(self, groups: dict[str, tuple[int, ...]]) -> None:
        """Learn the ranks of groups."""
        self._groups.update(groups)

    def add(self, report: CollectiveReport) -> Iterator[Finding]:
        """Add a call; a finding if the ranks of its group called something else, once a group."""
        self.last[report.rank] = report
        log: _Log = (report.group, report.by)
        self._newest[log, report.rank] = max(
            report.sequence, self._newest.get((log, report.rank), -1)
        )
        if report.group in self._broken:
            return
        calls = self._open[log].setdefault(report.sequence, {})
        calls[report.rank] = report
        if len(calls) > 1 and len(split(calls, key=_signature)) > 1:
            self._broken.add(report.group)
            yield _disagreement(calls)
        if len(calls) == len(self._groups.get(report.group, ())):
            if report.by == "calls":
                self._seen[report.group, report.sequence] = calls[min(calls)]
            del self._open[log][report.sequence]
        _shorten(self._open[log])
        while len(self._seen) > _MOST_OPEN:
            del self._seen[next(iter(self._seen))]

    def add_result(self, report: CollectiveResult) -> Iterator[Finding]:
        """Add a result; a finding if it is not what the ranks gave."""
        results = self._results[report.group].setdefault(report.sequence, {})
        results[report.rank] = report
        ranks = self._groups.get(report.group, ())
        call = self._seen.get((report.group, report.sequence))
        if call is None or len(results) < len(ranks):
            _shorten(self._results[report.group])
            return
        del self._results[report.group][report.sequence]
        yield from _wrong_result(call, results, ranks)

    def name(self, group: str, sequence: int) -> str:
        """``all_reduce #412`` for a collective that was reported."""
        known = self._seen.get((group, sequence))
        kind = "collective" if known is None else known.kind
        return f"{kind} #{sequence}"

    def waiting(self) -> Iterator[tuple[CollectiveReport, list[int]]]:
        """The oldest call of each group that some ranks made and others have not come to, with
        those; calls that have a line first."""
        found = []
        for log, calls in self._open.items():
            ranks = self._groups.get(log[0], ())
            for sequence in sorted(calls):
                known = calls[sequence]
                # The flight recorder may have dropped a call: a rank with a later one has made it.
                missing = [r for r in ranks if self._newest.get((log, r), -1) < sequence]
                if missing:
                    found.append((known[min(known)], missing))
                    break
        yield from sorted(found, key=lambda each: each[0].by == "recorder")


def _signature(call: CollectiveReport) -> tuple[object, ...]:
    count = -1 if call.kind in UNEVEN else call.count
    dtype = "" if call.kind in _ROOT_ONLY else call.dtype
    return (call.kind, dtype, count, call.reduce, call.peer)


def _shorten(calls: dict[int, Any]) -> None:
    while len(calls) > _MOST_OPEN:
        del calls[min(calls)]


def bucket_text(bucket: GradientBucket | None) -> str:
    """`` (bucket 2: fc1.weight, fc1.bias)``; empty for no bucket."""
    if bucket is None:
        return ""
    more = bucket.size - len(bucket.names)
    names = ", ".join(bucket.names) + (f" and {more} more" if more else "")
    return f" (bucket {bucket.number}: {names})"


def call_text(call: CollectiveReport) -> str:
    """``all_reduce #412 (bucket 2: fc1.weight, fc1.bias) at train.py:30``."""
    at = call.source or "an unknown line"
    return f"{call.kind} #{call.sequence}{bucket_text(call.bucket)} at {at}"


def _described(call: CollectiveReport) -> str:
    reduced = f" ({call.reduce})" if call.reduce else ""
    root = f" from rank {call.peer}" if call.peer >= 0 else ""
    at = f" at {call.source}" if call.source else ""
    bucket = bucket_text(call.bucket)
    return f"{call.kind}{reduced} of {call.count} {call.dtype}{bucket}{root}{at}"


def _disagreement(calls: dict[int, CollectiveReport]) -> Finding:
    sets = split(calls, key=_signature)
    few, many = sets[-1], sets[0]
    ours, theirs = calls[few[0]], calls[many[0]]
    return finding(
        "collectives-differ",
        "established",
        f"collective #{ours.sequence} of group {ours.group} differs in step {ours.step}: "
        f"{ranks_text(few)} calls {_described(ours)}, {ranks_text(many)} {_described(theirs)}; the "
        "job will hang, or compute with wrong values",
        step=ours.step,
        ranks=few,
        evidence={
            "sequence": ours.sequence,
            "group": ours.group,
            "calls": {rank: _described(call) for rank, call in calls.items()},
        },
        advice="let all ranks of the group call the same collectives in the same order",
        places=(ours.source, theirs.source),
    )


def _wrong_result(
    call: CollectiveReport, results: dict[int, CollectiveResult], ranks: tuple[int, ...]
) -> Iterator[Finding]:
    wrong = _wrong_ranks(call, results, ranks)
    what = {
        "all_reduce": "have another result than the other ranks",
        "broadcast": f"have not got what rank {call.peer} sent",
    }.get(call.kind, "have not got what the other ranks gave")
    evidence: dict[str, object] = {"sequence": call.sequence, "group": call.group}
    if not wrong and call.kind == "all_reduce" and (sums := _wrong_sum(call, results)):
        wrong = sorted(results)
        got, expected = sums
        evidence |= {"projection": got, "expected": expected}
        what = f"have not got the {'mean' if call.reduce == 'AVG' else 'sum'} of what they gave"
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
        advice="look for a buffer that is used again before an asynchronous collective has ended "
        "(wait() is missing), then at the network and the hardware of the rank",
        places=(call.source,),
    )


def _wrong_ranks(
    call: CollectiveReport, results: dict[int, CollectiveResult], ranks: tuple[int, ...]
) -> list[int]:
    if call.kind == "all_reduce":
        sets = split(results, key=lambda each: each.outputs)
        return sorted(rank for each in sets[1:] for rank in each)
    if call.kind == "broadcast" and call.peer in results:
        sent = results[call.peer].inputs
        return [rank for rank, each in results.items() if each.outputs != sent]
    if call.kind in ("all_gather", "all_gather_into_tensor"):
        given = tuple(results[rank].inputs[0] for rank in ranks if results[rank].inputs)
        return [rank for rank, each in results.items() if each.outputs != given]
    if call.kind == "all_to_all":
        return _wrong_parts(results, ranks)
    return []


def _wrong_parts(results: dict[int, CollectiveResult], ranks: tuple[int, ...]) -> list[int]:
    """The ranks that have got another part than the one that was for them."""
    size = len(ranks)
    if any(len(each.inputs) != size or len(each.outputs) != size for each in results.values()):
        return []
    return [
        rank
        for place, rank in enumerate(ranks)
        if results[rank].outputs != tuple(results[other].inputs[place] for other in ranks)
    ]


def _wrong_sum(
    call: CollectiveReport, results: dict[int, CollectiveResult]
) -> tuple[float, float] | None:
    """A projection of the result and that of the sum of the inputs, if they differ by more than
    rounding does. Rounding errors of the elements have no part in the signs of a projection, so
    that they add up as in a norm. None also for NaN and Inf, and for reductions that do not add."""
    known = list(results.values())
    eps = _EPS.get(call.dtype)
    is_whole = all(len(each.given) == len(each.got) > 1 for each in known)
    if eps is None or call.reduce not in ("SUM", "AVG") or not is_whole:
        return None
    if not all(math.isfinite(value) for each in known for value in (*each.given, *each.got)):
        return None
    parts = len(known) if call.reduce == "AVG" else 1
    size = math.fsum(each.given[-1] for each in known) / parts
    allowed = _ROUNDING * max(1.0, math.log2(len(known))) * eps * size
    for number, got in enumerate(known[0].got[:-1]):
        expected = math.fsum(each.given[number] for each in known) / parts
        if abs(got - expected) > allowed:
            return got, expected
    return None
