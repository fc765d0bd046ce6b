"""Evaluates watchpoints on the values that the paused ranks of a training have available."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from sonde.core.errors import UsageError
from sonde.server.http.events import Changes
from sonde.server.live import values as live_values
from sonde.server.live.control import MOST_WAIT_SECONDS
from sonde.server.live.rank import LiveRank
from sonde.server.live.rank_link import gone
from sonde.wire.api import RecheckView
from sonde.wire.questions import Checked
from sonde.wire.shapes import WatchpointSpec

_MOST_NAMED: Final = 3
_MOST_TEXT: Final = 300


class CheckNow:
    """The last evaluation of the watchpoints on the values that the ranks have. ``view`` is None if
    there was none, or the training or the watchpoints have changed since."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._late: asyncio.Task[RecheckView] | None = None
        self.view: RecheckView | None = None

    def forget(self) -> None:
        self.view = None

    async def run(
        self, ranks: Sequence[LiveRank], specs: Sequence[WatchpointSpec], wait_seconds: float
    ) -> None:
        if not ranks:
            raise gone("the training")
        if not specs:
            raise UsageError("there are no watchpoints to check", slug="no-such-watchpoint")
        check = asyncio.create_task(_check(ranks, specs))
        check.add_done_callback(self._ended)
        limit = min(wait_seconds, MOST_WAIT_SECONDS) if wait_seconds > 0 else None
        await asyncio.wait({check}, timeout=limit)
        if check.done():
            self.view = check.result()
        else:
            self.view, self._late = RecheckView(True, 0, 0, 0), check

    def _ended(self, check: asyncio.Task[RecheckView]) -> None:
        """Show the result of a check that took longer than the request; an error is not shown."""
        is_good = not check.cancelled() and check.exception() is None
        if check is self._late and self.view is not None:
            self.view = check.result() if is_good else None
            self._changes.touch("status", "hits")


async def _check(ranks: Sequence[LiveRank], specs: Sequence[WatchpointSpec]) -> RecheckView:
    """The sum of the answers of all ranks; their hits were sent before. UsageError if one fails."""
    links = {rank.number: rank.link for rank in ranks if rank.link is not None}
    answers = await asyncio.gather(*map(live_values.check, links.values()))
    found = list(zip(links, answers, strict=True))
    judged = sum(answer.judged for _, answer in found)
    missing = sum(answer.missing for _, answer in found)
    notes = tuple(
        f"rank {number}: {note}" if len(found) > 1 else note
        for number, answer in found
        for note in _notes(answer, specs)
    )
    hits = sum(answer.hits for _, answer in found)
    return RecheckView(False, judged, judged + missing, hits, notes)


def _notes(answer: Checked, specs: Sequence[WatchpointSpec]) -> Iterator[str]:
    """Sentences about tensors and watchpoints that were not evaluated."""
    if answer.missing:
        names = [name.rpartition("/")[2][:_MOST_TEXT] for name in answer.examples[:_MOST_NAMED]]
        named = ", ".join([*names, *(["..."] if answer.missing > len(names) else [])])
        yield (
            f"{answer.missing} tensors of step {answer.step} were not saved ({named}); they will "
            "be checked in the next step"
        )
    numbers = {*answer.later}
    later = [spec.name or str(spec.id) for spec in specs if spec.id in numbers]
    if later:
        listed = ", ".join(later)
        yield f"evaluated only while steps run (changes, initial weights): {listed}"
    if not answer.judged and not answer.missing and not answer.later:
        yield "no tensor that a watchpoint applies to is known yet; run a step"
