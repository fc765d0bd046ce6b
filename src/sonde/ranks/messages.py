"""Compares what a rank sends to another with what that one receives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sonde.core.finding import Finding
from sonde.ranks.check import finding
from sonde.ranks.collective_results import ADVICE
from sonde.ranks.report import MessageReport

_MOST_OPEN: Final = 65536
"""Messages of which one rank has not reported; beyond, the oldest are dropped."""
_Key = tuple[str, int, int, int, int]


class MessageLog:
    """The messages of one job until both ranks have reported them, in either order."""

    def __init__(self) -> None:
        self._open: dict[_Key, MessageReport] = {}
        self._reported: set[tuple[str, str]] = set()

    def add(self, report: MessageReport) -> Iterator[Finding]:
        """Add a message; a finding if another was received than was sent, once for two lines."""
        key = (report.group, report.source, report.target, report.tag, report.sequence)
        other = self._open.pop(key, None)
        if other is None or other.rank == report.rank:
            self._open[key] = report
            while len(self._open) > _MOST_OPEN:
                del self._open[next(iter(self._open))]
            return
        sent, got = (report, other) if report.rank == report.source else (other, report)
        lines = (sent.line, got.line)
        if sent.digest != got.digest and lines not in self._reported:
            self._reported.add(lines)
            yield _wrong(sent, got)


def _wrong(sent: MessageReport, got: MessageReport) -> Finding:
    return finding(
        "collective-result-wrong",
        "established",
        f"rank {got.rank} has not got at {got.line or 'an unknown line'} what rank {sent.rank} "
        f"sent at {sent.line or 'an unknown line'} in step {sent.step}: message #{sent.sequence} "
        "between them has other elements",
        step=sent.step,
        ranks=(got.rank,),
        evidence={"sequence": sent.sequence, "group": sent.group, "tag": sent.tag},
        advice=ADVICE,
        places=(got.line, sent.line),
    )
