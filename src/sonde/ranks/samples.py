"""Finds samples that several data-parallel ranks read in one epoch.

The samples of compared steps are known by their hashes. Of these each rank keeps the lowest, so
that ranks keep the same ones; samples that a rank reads twice tell that the data repeat.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sonde.core.finding import Finding
from sonde.ranks.check import finding
from sonde.ranks.job_step import JobStep
from sonde.ranks.report import LoadedSamples

_MOST_KEPT: Final = 4096
_FEWEST_SHARED: Final = 16
_LEAST_SHARE: Final = 0.05
_Group = tuple[int, ...]


@dataclass(slots=True)
class _Read:
    """What a rank has read in its last epoch."""

    epoch: int = -1
    seen: set[int] = field(default_factory=set)
    repeated: int = 0

    def add(self, samples: LoadedSamples) -> None:
        if samples.epoch != self.epoch:
            self.epoch, self.seen, self.repeated = samples.epoch, set(), 0
        counts = Counter(samples.hashes)
        self.repeated += sum(counts.values()) - len(self.seen.union(counts)) + len(self.seen)
        self.seen |= counts.keys()
        if len(self.seen) > _MOST_KEPT:
            self.seen = set(heapq.nsmallest(_MOST_KEPT // 2, self.seen))


class SampleLog:
    """The samples of the ranks of one job, a finding once for each group."""

    def __init__(self) -> None:
        self._read: dict[int, _Read] = {}
        self._reported: set[_Group] = set()

    def add(self, step: JobStep) -> Iterator[Finding]:
        """Add a step; a finding if ranks read the same samples."""
        batches = Counter(each.batch_digest for each in step.reports.values())
        for rank, report in step.reports.items():
            # Whole batches that ranks have in common are found by another check.
            if report.samples is not None and batches[report.batch_digest] == 1:
                self._read.setdefault(rank, _Read()).add(report.samples)
        if not step.is_sampled or not step.has_roles:
            return
        for group in step.groups("data"):
            if group not in self._reported and (found := self._shared(step, group)) is not None:
                self._reported.add(group)
                yield found

    def _shared(self, step: JobStep, group: _Group) -> Finding | None:
        known = [rank for rank in group if rank in self._read]
        for place, first in enumerate(known):
            for second in known[place + 1 :]:
                if _is_shared(self._read[first], self._read[second]):
                    return _described(step, self._read, first, second)
            if place > _MOST_FIRST:
                break
        return None


_MOST_FIRST: Final = 4
"""Ranks that are compared with all others, of many."""


def _is_shared(ours: _Read, theirs: _Read) -> bool:
    shared = len(ours.seen & theirs.seen)
    least = min(len(ours.seen), len(theirs.seen))
    repeated = ours.repeated + theirs.repeated
    return (
        ours.epoch == theirs.epoch
        and shared >= max(_FEWEST_SHARED, _LEAST_SHARE * least)
        and shared > repeated
    )


def _described(step: JobStep, read: dict[int, _Read], first: int, second: int) -> Finding:
    ours, theirs = read[first], read[second]
    shared = len(ours.seen & theirs.seen)
    return finding(
        "same-samples-on-ranks",
        "supported",
        f"ranks {first} and {second} read the same samples in epoch {ours.epoch}, in different "
        f"batches: {shared} of {len(theirs.seen)} that rank {second} has read in compared steps up "
        f"to step {step.step} were read by rank {first}, too",
        step=step.step,
        ranks=(first, second),
        evidence={"shared": shared, "read": [len(ours.seen), len(theirs.seen)]},
        advice="give the DataLoader a DistributedSampler in place of shuffle=True, or each rank "
        "its own part of the data",
        places=(step.reports[second].loss_source,),
    )
