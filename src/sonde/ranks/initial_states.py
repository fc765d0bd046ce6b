"""Pairs what ranks report of their state before the first step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

from sonde.ranks.report import RankDescription, StepReport

State = tuple[RankDescription, StepReport]


class InitialStates:
    """A rank reports its state again whenever it finds new tensors, as of a second optimizer: the
    n-th report of a rank belongs to the n-th of the others, whatever arrives first. Tensors that
    were reported earlier keep the hashes that they had then."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[State]] = {}
        self._last: dict[int, State] = {}

    def add(
        self, description: RankDescription, report: StepReport, world_size: int
    ) -> Iterator[dict[int, State]]:
        """The states, by rank, that are complete with this report."""
        rank = report.rank
        last = self._last.get(rank)
        if last is not None:
            report = _with_earlier(last, description, report)
        self._last[rank] = description, report
        self._waiting.setdefault(rank, deque()).append((description, report))
        while len(self._waiting) >= world_size and all(self._waiting.values()):
            yield self._next()

    def rest(self) -> Iterator[dict[int, State]]:
        """What not all ranks have reported."""
        while any(self._waiting.values()):
            yield self._next()

    def _next(self) -> dict[int, State]:
        return {rank: each.popleft() for rank, each in self._waiting.items() if each}


def _with_earlier(last: State, description: RankDescription, report: StepReport) -> StepReport:
    """``report`` with the hashes of tensors that ``last`` has."""
    names = [each.name for each in last[0].tensors]
    digests = dict(zip(names, last[1].digests, strict=False))
    constants = {names[number] for number in last[1].constants if 0 <= number < len(names)}
    tensors = description.tensors[: len(report.digests)]
    new = zip(tensors, report.digests, strict=True)
    is_constant = {
        number
        for number, each in enumerate(tensors)
        if (each.name in constants if each.name in digests else number in report.constants)
    }
    return replace(
        report,
        digests=tuple(digests.get(each.name) or digest for each, digest in new),
        constants=tuple(sorted(is_constant)),
    )
