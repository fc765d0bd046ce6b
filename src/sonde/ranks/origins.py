"""The first NaN or Inf over all ranks: which rank made it, and how the others got it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sonde.core.finding import Finding
from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import finding
from sonde.ranks.report import NonFiniteReport


class FirstNonFinite:
    """Collects what ranks report about one step, and tells those that made NaN or Inf from those
    that got it by a collective. ``name`` names a collective by group and sequence number."""

    def __init__(self, name: Callable[[str, int], str]) -> None:
        self._name = name
        self._steps: dict[int, dict[int, NonFiniteReport]] = {}
        self._is_reported = False

    def add(self, report: NonFiniteReport, world_size: int) -> Iterator[Finding]:
        """Add the first one of a rank; a finding once all ranks of the job have one."""
        if self._is_reported:
            return
        reports = self._steps.setdefault(report.step, {})
        reports.setdefault(report.rank, report)
        if len(reports) >= world_size > 1:
            yield from self._report(report.step)

    def finish(self) -> Iterator[Finding]:
        """A finding about the first step with NaN or Inf, if it was not reported."""
        if self._steps and not self._is_reported:
            yield from self._report(min(self._steps))

    def _carrier(self, report: NonFiniteReport) -> str:
        """The collective that brought it: by its number, or by its op where that is not known."""
        if report.sequence >= 0:
            return self._name(report.group, report.sequence)
        return f"{report.op} at {report.source}" if report.source else report.op

    def _report(self, step: int) -> Iterator[Finding]:
        self._is_reported = True
        reports = self._steps[step]
        makers = [each for each in reports.values() if not each.group]
        got = [each for each in reports.values() if each.group]
        if not makers:
            return
        first = min(makers, key=lambda each: each.rank)
        at = f" at {first.source}" if first.source else ""
        by = ""
        if got:
            others = ranks_text(each.rank for each in got)
            by = f"; it reached {others} through {self._carrier(got[0])}"
        yield finding(
            "first-non-finite",
            "established",
            f"{ranks_text(each.rank for each in makers)} made the first NaN or Inf in {first.op}"
            f"{at}, in step {step}{by}",
            step=step,
            ranks=sorted(each.rank for each in makers),
            evidence={"op": first.op, "got_by": sorted(each.rank for each in got)},
            advice=f"look at the inputs of {first.op} on rank {first.rank}",
            places=(first.source, first.op),
        )
