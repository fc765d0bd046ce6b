"""Compares the collectives of a group: do all ranks call the same, and did all get its result?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from sonde.core.finding import Finding
from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import finding
from sonde.ranks.collective_results import wrong_result
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
_MOST_OPEN: Final = 4096
"""Collectives of one group that wait for other ranks; beyond, the oldest are dropped."""


_SOURCES: Final[tuple[CollectiveSource, ...]] = ("calls", "recorder")
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
        self._wrong: set[tuple[str, str]] = set()

    def know(self, groups: dict[str, tuple[int, ...]]) -> Iterator[Finding]:
        """Learn the ranks of groups; what is wrong with the results that waited for this."""
        new = groups.keys() - self._groups.keys()
        self._groups.update(groups)
        for group in sorted(new):
            for by in _SOURCES:
                log: _Log = (group, by)
                for sequence in sorted(self._open.get(log, ())):
                    self._close(log, sequence)
            for sequence in sorted(self._results.get(group, ())):
                yield from self._judge(group, sequence)

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
        self._close(log, report.sequence)
        _shorten(self._open[log])
        while len(self._seen) > _MOST_OPEN:
            del self._seen[next(iter(self._seen))]

    def _close(self, log: _Log, sequence: int) -> None:
        """Note a collective that all ranks of its group have called."""
        calls = self._open[log][sequence]
        if len(calls) == len(self._groups.get(log[0], ())):
            if log[1] == "calls":
                self._seen[log[0], sequence] = calls[min(calls)]
            del self._open[log][sequence]

    def add_result(self, report: CollectiveResult) -> Iterator[Finding]:
        """Add a result; a finding if it is not what the ranks gave, once for each line."""
        self._results[report.group].setdefault(report.sequence, {})[report.rank] = report
        yield from self._judge(report.group, report.sequence)
        _shorten(self._results[report.group])

    def _judge(self, group: str, sequence: int) -> Iterator[Finding]:
        """Judge a collective of which all ranks have reported the call and the result."""
        results = self._results[group][sequence]
        ranks = self._groups.get(group, ())
        call = self._seen.get((group, sequence))
        if call is None or len(results) < len(ranks):
            return
        del self._results[group][sequence]
        for found in wrong_result(call, results, ranks):
            key = (call.kind, call.source)
            if key not in self._wrong:
                self._wrong.add(key)
                yield found

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
