"""How people drive the ranks of a live run: who is told what, and when that has come to pass."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from sonde.core.errors import UsageError
from sonde.server.changes import Changes
from sonde.server.live_rank import LiveRank
from sonde.wire.api import ControlRequest
from sonde.wire.rank import Command, Control

MOST_WAIT_SECONDS: Final = 3600.0
BEGIN_SECONDS: Final = 60.0
OBEY_SECONDS: Final = 0.5
GATHER_SECONDS: Final = 10.0
LAGGARD_SECONDS: Final = 2.0


class Steering:
    """Controls of one run. ``generation`` is that of the newest one. Used in the event loop's
    thread only."""

    def __init__(self, run: str, ranks: Mapping[int, LiveRank], changes: Changes) -> None:
        self._run = run
        self._ranks = ranks
        self._changes = changes
        self.generation = 0

    def heard_of(self, generation: int) -> None:
        """A rank obeyed this one, maybe of a server that is gone."""
        self.generation = max(self.generation, generation)

    def rank(self, number: int | None) -> LiveRank:
        """The rank of that number, None: the lowest; UsageError if there is none."""
        if number is None:
            number = min(self._ranks, default=0)
        found = self._ranks.get(number)
        if found is None:
            raise UsageError(
                f"run {self._run!r} has no rank {number}; it has {sorted(self._ranks)}",
                slug="no-such-rank",
            )
        return found

    def connected(self, number: int | None) -> Sequence[LiveRank]:
        """The rank of that number, None: all, as far as connected; UsageError for one that never
        was there."""
        ranks = self._ranks.values() if number is None else (self.rank(number),)
        return [rank for rank in ranks if rank.link is not None]

    def commands(self) -> tuple[Command, ...]:
        """Those that make sense now."""
        states = {rank.state for rank in self._ranks.values()} - {"ended", "lost"}
        if not states:
            return ()
        stopped: tuple[Command, ...] = ("continue", "step", "next", "to")
        going: tuple[Command, ...] = ("pause",)
        return (
            *(stopped if "paused" in states else ()),
            *(going if states - {"paused"} else ()),
            "terminate",
        )

    async def control(
        self, request: ControlRequest, find: Callable[[ControlRequest], Awaitable[str]]
    ) -> None:
        """UsageError if no rank is there to obey. ``find`` gives the full name to run to."""
        if not 1 <= request.steps < 2**31:
            raise UsageError(f"{request.steps} steps cannot be run", slug="bad-request")
        if request.rank is None and request.command != "terminate":
            await self._gathered()
        ranks = self.connected(request.rank)
        if not ranks:
            whom = "" if request.rank is None else f" as rank {request.rank}"
            raise UsageError(
                f"run {self._run!r} has no connected training process{whom} to obey",
                slug="run-ended",
            )
        if request.command == "pause":  # Who stands still has nothing to obey, and says nothing.
            ranks = [rank for rank in ranks if not rank.has_settled]
        elif request.command != "terminate":
            await self._begun(ranks)
        op = await find(request) if request.command == "to" else ""
        self.generation += 1
        message = Control(self.generation, request.command, request.steps, op)
        for rank in ranks:
            rank.generation = self.generation
            if rank.link is not None:
                rank.link.send(message)
        await self._settled(ranks, min(request.wait_seconds, MOST_WAIT_SECONDS))
        await self._obeyed(ranks)

    async def _gathered(self) -> None:
        """Until all ranks have come, before the first command: one that came later would wait to
        be told, and the others for it. Not for long: maybe only some of them are debugged."""
        if self.generation == 0 and self.connected(None):
            await self._changes.until(
                lambda: all(
                    len(self._ranks) >= rank.metadata.world_size for rank in self._ranks.values()
                ),
                GATHER_SECONDS,
            )

    async def _begun(self, ranks: Sequence[LiveRank]) -> None:
        """Until no rank is on its way to its first step, where it would wait to be told again."""
        await self._changes.until(
            lambda: all(rank.state != "waiting" for rank in ranks), BEGIN_SECONDS
        )

    async def _settled(self, ranks: Sequence[LiveRank], seconds: float) -> None:
        """Until one of the ranks stands still again, or all are gone, or time is up.

        When one does, the others mostly come soon; but they may also wait for it in a collective.
        """

        def all_have() -> bool:
            return all(rank.has_settled for rank in ranks)

        def one_has() -> bool:
            return any(rank.has_settled and rank.state == "paused" for rank in ranks)

        await self._changes.until(lambda: one_has() or all_have(), seconds)
        if one_has():
            await self._changes.until(all_have, min(seconds, LAGGARD_SECONDS))

    async def _obeyed(self, ranks: Sequence[LiveRank]) -> None:
        """Until those that stood still have heard of it, so that nobody is shown where they were
        before; but not for long."""
        await self._changes.until(
            lambda: all(rank.state != "paused" or rank.has_settled for rank in ranks), OBEY_SECONDS
        )
