"""The ranks of one live run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sonde.core.errors import UsageError
from sonde.server.live.rank import LiveRank
from sonde.server.live.rank_link import RankLink, gone
from sonde.wire.rank import FromServer

_QUIET_SECONDS: Final = 2.0


class LiveRanks(dict[int, LiveRank]):
    """Ranks by number, also after they disconnect. Used in the event loop's thread only."""

    def __init__(self, run: str) -> None:
        self.run = run

    @property
    def title(self) -> str:
        """The command line of the training, or the id of the run before a rank has connected."""
        for rank in self.values():
            return " ".join([Path(rank.metadata.script).name, *rank.metadata.arguments])[:200]
        return self.run

    @property
    def is_connected(self) -> bool:
        """Whether any rank is connected."""
        return any(rank.link is not None for rank in self.values())

    @property
    def lost(self) -> tuple[int, ...]:
        """The ranks whose connection ended without a goodbye, in the order in which it did."""
        gone = [rank for rank in self.values() if rank.state == "lost"]
        return tuple(rank.number for rank in sorted(gone, key=lambda rank: rank.lost_at))

    def awaited(self) -> dict[int, tuple[int, ...]]:
        """The paused ranks that each rank waits for: it runs, as far as it told, but has made no
        progress for a while, as a process does that waits in a collective."""
        paused = tuple(sorted(n for n, each in self.items() if each.state == "paused"))
        paused_at = max((self[number].heard_at for number in paused), default=0.0)
        now = time.monotonic()
        found: dict[int, tuple[int, ...]] = {}
        for number, rank in self.items():
            quiet_for = now - max(rank.heard_at, paused_at)
            least = max(_QUIET_SECONDS, 3 * (rank.steps.seconds or 0.0))
            waits = rank.state == "running" and quiet_for > least
            found[number] = paused if waits else ()
        return found

    def find(self, number: int | None) -> LiveRank:
        """The rank of that number, None: the lowest; UsageError if there is no such rank."""
        if number is None:
            number = min(self, default=0)
        found = self.get(number)
        if found is None:
            raise UsageError(
                f"run {self.run!r} has no rank {number}; its ranks are {sorted(self)}",
                slug="no-such-rank",
            )
        return found

    def connected(self, number: int | None = None) -> Sequence[LiveRank]:
        """The rank of that number, None: all, if connected; UsageError for a number that never was
        connected."""
        ranks = self.values() if number is None else (self.find(number),)
        return [rank for rank in ranks if rank.link is not None]

    def demand_connected(self, number: int | None = None) -> Sequence[LiveRank]:
        """The same; UsageError if none is connected."""
        ranks = self.connected(number)
        if not ranks:
            whom = "" if number is None else f" as rank {number}"
            raise UsageError(
                f"run {self.run!r} has no connected training process{whom}", slug="run-ended"
            )
        return ranks

    def link(self, number: int | None) -> RankLink:
        """The connection of a rank; UsageError if it is not connected."""
        rank = self.find(number)
        if rank.link is None:
            raise gone(f"rank {rank.number}")
        return rank.link

    def send(self, message: FromServer) -> None:
        """Send ``message`` to all ranks that are connected."""
        for rank in self.values():
            rank.send(message)
