"""Sends commands to the ranks of a live run, and waits until the ranks have executed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sonde.core.errors import UsageError
from sonde.server.http.events import Changes
from sonde.server.live.rank import LiveRank
from sonde.server.live.ranks import LiveRanks
from sonde.wire.api import ControlRequest
from sonde.wire.rank import Command, ControlMessage

MOST_WAIT_SECONDS: Final = 3600.0
BEGIN_SECONDS: Final = 60.0
RECEIPT_SECONDS: Final = 0.5
GATHER_SECONDS: Final = 10.0
STRAGGLER_SECONDS: Final = 2.0

_LAST_GENERATION: Final = 2**62
"""So that later generations still fit into 64 bits, whatever a rank sends."""


class RunControl:
    """The commands of one run. ``generation`` is the number of the newest command. Used in the
    event loop's thread only."""

    def __init__(self, ranks: LiveRanks, changes: Changes) -> None:
        self._ranks = ranks
        self._changes = changes
        self.generation = 0

    def note_generation(self, generation: int) -> None:
        """Continue after a command that a rank has executed; an earlier server may have sent it."""
        self.generation = max(self.generation, min(generation, _LAST_GENERATION))

    def commands(self) -> tuple[Command, ...]:
        """The commands that can be executed now."""
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

    async def control(self, request: ControlRequest) -> None:
        """Send a command and wait until it is executed; UsageError if no rank is connected."""
        if not 1 <= request.steps < 2**31:
            raise UsageError(f"steps must be 1 or more (got {request.steps})", slug="bad-request")
        if request.rank is None and request.command != "terminate":
            await self._wait_for_all_ranks()
        ranks = self._ranks.demand_connected(request.rank)
        if request.command == "pause":  # A paused rank ignores the command, and sends no status.
            ranks = [rank for rank in ranks if not rank.has_settled]
        elif request.command != "terminate":
            await self._wait_for_first_step(ranks)
        is_to = request.command == "to"
        op = await self._ranks.find(request.rank).target_name(request.op) if is_to else ""
        self.generation += 1
        message = ControlMessage(self.generation, request.command, request.steps, op)
        for rank in ranks:
            rank.expect(self.generation)
            rank.send(message)
        await self._wait_for_pause(ranks, min(request.wait_seconds, MOST_WAIT_SECONDS))
        await self._wait_for_receipt(ranks)

    async def _wait_for_all_ranks(self) -> None:
        """Before the first command, wait until all ranks are connected: a rank that connects later
        would wait for a command, and the others for that rank. Not for long, because possibly only
        some of the ranks are debugged."""
        if self.generation == 0 and self._ranks.is_connected:
            await self._changes.until(
                lambda: all(
                    len(self._ranks) >= rank.metadata.world_size for rank in self._ranks.values()
                ),
                GATHER_SECONDS,
            )

    async def _wait_for_first_step(self, ranks: Sequence[LiveRank]) -> None:
        """Wait until every rank has reached its first step; earlier it ignores commands."""
        await self._changes.until(
            lambda: all(rank.state != "waiting" for rank in ranks), BEGIN_SECONDS
        )

    async def _wait_for_pause(self, ranks: Sequence[LiveRank], seconds: float) -> None:
        """Wait until one of the ranks is paused again, or all are gone, or for ``seconds``.

        Then wait a little for the others, which mostly follow soon; but they may also wait for the
        paused rank in a collective.
        """

        def all_have() -> bool:
            return all(rank.has_settled for rank in ranks)

        def one_has() -> bool:
            return any(rank.has_settled and rank.state == "paused" for rank in ranks)

        await self._changes.until(lambda: one_has() or all_have(), seconds)
        if one_has():
            await self._changes.until(all_have, min(seconds, STRAGGLER_SECONDS))

    async def _wait_for_receipt(self, ranks: Sequence[LiveRank]) -> None:
        """Wait shortly until the ranks that were paused have got the command, so that the answer
        does not show their earlier state."""
        await self._changes.until(
            lambda: all(rank.state != "paused" or rank.has_settled for rank in ranks),
            RECEIPT_SECONDS,
        )
