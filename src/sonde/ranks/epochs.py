"""A shuffling sampler gives the same order in every epoch: ``set_epoch`` is not called."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.ranks.check import finding
from sonde.ranks.report import EpochReport


class EpochLog:
    """The epochs of each sampler of each rank."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, str], EpochReport] = {}
        self._is_reported = False

    def add(self, report: EpochReport) -> Iterator[Finding]:
        """Add an epoch; a finding if its order is that of the epoch before it, once a job."""
        before = self._last.get((report.rank, report.sampler))
        self._last[report.rank, report.sampler] = report
        if self._is_reported or before is None or not report.is_shuffled:
            return
        if before.order != report.order:
            return
        self._is_reported = True
        yield finding(
            "sampler-same-order",
            "established",
            f"{report.sampler} shuffles in the same order in every epoch, because its epoch is "
            f"still {report.epoch}",
            step=0,
            ranks=(report.rank,),
            evidence={"epoch": report.epoch, "order": f"{report.order:016x}"},
            advice="call sampler.set_epoch(epoch) before each epoch"
            + (f", before {report.source}" if report.source else ""),
            places=(report.source,),
        )
