"""Evaluates watchpoints on the values that the paused ranks of a training have available."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from sonde.server.live import values as live_values
from sonde.server.live.rank import LiveRank
from sonde.wire.api import RecheckView
from sonde.wire.questions import Checked
from sonde.wire.shapes import WatchpointSpec

_MOST_NAMED: Final = 3
_MOST_TEXT: Final = 300


async def check(ranks: Sequence[LiveRank], specs: Sequence[WatchpointSpec]) -> RecheckView:
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
            f"{answer.missing} tensors of step {answer.step} are not available, because their "
            f"values were not kept ({named}); they are evaluated when they are computed again"
        )
    numbers = {*answer.later}
    later = [spec.name or str(spec.id) for spec in specs if spec.id in numbers]
    if later:
        listed = ", ".join(later)
        yield f"evaluated only while steps run (changes, initial weights): {listed}"
    if not answer.judged and not answer.missing and not answer.later:
        yield "no tensor that a watchpoint applies to is known yet; run a step"
