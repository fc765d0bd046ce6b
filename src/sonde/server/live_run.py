"""A run whose ranks are, or were, connected."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from pathlib import Path
from typing import Final

import msgspec

from sonde.core.errors import UsageError
from sonde.debugger.answers import Values
from sonde.server import live_check, live_values
from sonde.server.changes import Changes
from sonde.server.events import EventBoard
from sonde.server.graph_index import GraphIndex
from sonde.server.hit_book import HitBook
from sonde.server.listing import find_target
from sonde.server.live_rank import LiveRank
from sonde.server.rank_link import RankLink, gone
from sonde.server.source import NpyFile, Question
from sonde.server.steering import MOST_WAIT_SECONDS, Steering
from sonde.server.watchpoint_set import WatchpointSet
from sonde.wire.api import (
    ControlRequest,
    KeepRequest,
    LossCurve,
    RecheckView,
    RunView,
    StatisticCurve,
)
from sonde.wire.questions import AnyAnswer
from sonde.wire.rank import (
    Answer,
    FromRank,
    Goodbye,
    GraphPart,
    Hello,
    Hits,
    Keep,
    Notice,
    SetWatchpoints,
    Status,
    StepDone,
    Welcome,
)
from sonde.wire.shapes import Hit, TensorName

RUN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MOST_NOTICES: Final = 200
MOST_TEXT: Final = 2000
MOST_IN_CHAIN: Final = 200


class LiveRun:
    """The ranks of one training. Kept when they are gone; used in the event loop's thread only."""

    def __init__(self, run: str, board: EventBoard, *, paused: bool) -> None:
        self.id = run
        self._changes = Changes(run, board)
        self._paused = paused
        self._notices: deque[str] = deque(maxlen=MOST_NOTICES)
        self.watchpoints = WatchpointSet()
        self.hits = HitBook(self._is_leaf)
        self.ranks: dict[int, LiveRank] = {}
        self._steering = Steering(run, self.ranks, self._changes)
        self._checked: RecheckView | None = None
        self._late_check: asyncio.Task[RecheckView] | None = None

    @property
    def may_be_forgotten(self) -> bool:
        return all(rank.link is None for rank in self.ranks.values())

    def view(self) -> RunView:
        ranks = sorted(self.ranks.items())
        return RunView(
            id=self.id,
            kind="live",
            title=self._title(),
            revision=self._changes.revision,
            ranks=tuple(rank.view(self.hits.count(number)) for number, rank in ranks),
            watchpoints=self.watchpoints.all,
            controls=self._steering.commands(),
            notices=tuple(self._notices),
            recheck=self._checked,
        )

    def _title(self) -> str:
        for rank in self.ranks.values():
            words = [Path(rank.metadata.script).name, *rank.metadata.arguments]
            return " ".join(words)[:200]
        return self.id

    # ------------------------------------------------------------ what ranks say

    def join(self, hello: Hello, link: RankLink) -> tuple[LiveRank, Welcome]:
        """A rank connected, for the first time or again; what it is answered."""
        number = hello.metadata.rank
        is_new_run = not self.ranks
        known = self.ranks.get(number)
        if known is not None and known.link is not None:
            known.link.close()
        if known is None or not (hello.resumes and known.is_same(hello.metadata)):
            if not hello.resumes:
                self._forget_former(hello.metadata.world_size)
            known = self.ranks[number] = LiveRank(hello.metadata)
            self.hits.clear(number)
        if is_new_run and hello.watchpoints:
            self.watchpoints.adopt(hello.watchpoints)
        known.metadata = hello.metadata
        known.link = link
        self._steering.heard_of(hello.generation)
        self._changes.touch("status", "watchpoints", "hits")
        is_paused = self._paused and not hello.resumes
        return known, Welcome(
            self.watchpoints.all,
            is_paused,
            self._steering.generation,
            known.last_step,
            known.last_hit,
        )

    def _forget_former(self, world_size: int) -> None:
        """A training begins. If nobody else is connected it is another than before, and has none
        of the ranks beyond its number."""
        if self.may_be_forgotten:
            for number in [each for each in self.ranks if each >= world_size]:
                del self.ranks[number]
                self.hits.clear(number)

    def leave(self, rank: LiveRank, link: RankLink, why: str) -> None:
        """A connection is over; ``why`` is told to people unless it is empty."""
        link.close()
        if rank.link is not link:
            return
        rank.link = None
        if why:
            self._notice(f"rank {rank.number}: {why} [rank-unreadable]")
        self._changes.touch("status", "notices")

    def take(self, rank: LiveRank, link: RankLink, message: FromRank) -> None:
        """A rank said something; BadFrameError if it makes no sense."""
        match message:
            case Answer():
                link.answered(message)
            case Status():
                self._steering.heard_of(message.generation)
                text = message.message[:MOST_TEXT]
                rank.status = msgspec.structs.replace(message, message=text)
                self._changes.touch("status")
            case StepDone():
                rank.add_point(message.point, message.graph)
                self._changes.touch("loss")
            case Hits():
                self._take_hits(rank, message)
            case GraphPart():
                self._take_part(rank, message)
            case Notice():
                self._notice(
                    f"rank {rank.number}: {message.text[:MOST_TEXT]} [{message.slug[:100]}]"
                )
                self._changes.touch("notices")
            case Goodbye():
                rank.goodbye = message
                self._changes.touch("status")
            case Hello():
                self._notice(f"rank {rank.number} said hello twice [rank-unreadable]")
                self._changes.touch("notices")

    def _take_hits(self, rank: LiveRank, message: Hits) -> None:
        dropped = self.hits.dropped()
        rank.last_hit = max([rank.last_hit, *(hit.number for hit in message.hits)])
        self.hits.add(_bounded(hit, rank.number) for hit in message.hits)
        if self.hits.dropped() and not dropped:
            self._notice(
                "there are so many hits that only the first and the newest are kept [many-hits]"
            )
        self._changes.touch("hits")

    def _take_part(self, rank: LiveRank, part: GraphPart) -> None:
        if not rank.add_part(part):
            self._notice(
                f"rank {rank.number} has so many graphs that more are not kept [many-graphs]"
            )
        self._changes.touch("graph")

    def _is_leaf(self, hit: Hit) -> bool:
        rank = self.ranks.get(hit.rank)
        return rank is not None and hit.op in rank.leaves

    def _notice(self, text: str) -> None:
        if not self._notices or self._notices[-1] != text:
            self._notices.append(text)

    # ------------------------------------------------------------ what people want

    async def control(self, request: ControlRequest) -> None:
        """UsageError if no rank is there to obey."""
        self._checked = None
        await self._steering.control(request, self._target)

    async def _target(self, request: ControlRequest) -> str:
        """The full name of the op or scope to run to."""
        if not request.op:
            raise UsageError("say which op to run to", slug="bad-request")
        if not any(rank.graphs for rank in self.ranks.values()):
            if "/" not in request.op:
                raise UsageError(
                    "there is no graph yet to find the op in; run a step first, or give its full "
                    "name",
                    slug="no-such-op",
                )
            return request.op
        try:
            return find_target(await self.graph(request.rank, None), request.op)
        except UsageError as error:
            # Steps may differ, and the op be one of those that will come again.
            said = error
            for number in sorted(self._steering.rank(request.rank).graphs, reverse=True):
                try:
                    return find_target(await self.graph(request.rank, number), request.op)
                except UsageError as other:
                    # Which ones could be meant says more than that none is.
                    said = other if said.message.startswith("no ") else said
            raise said from None

    async def keep(self, request: KeepRequest) -> None:
        if not 1 <= request.steps <= 1000:
            raise UsageError(f"{request.steps} steps cannot be kept", slug="bad-request")
        for rank in self._steering.connected(request.rank):
            if rank.link is not None:
                rank.link.send(Keep(request.ops, request.steps))

    async def recheck(self, wait_seconds: float) -> None:
        """Ask the watchpoints of what is at hand; ranks that run answer when their steps end, which
        is waited for if ``wait_seconds`` is 0."""
        ranks = self._steering.connected(None)
        if not ranks:
            raise gone("the training")
        if not self.watchpoints.all:
            raise UsageError("there is no watchpoint to ask", slug="no-such-watchpoint")
        check = asyncio.create_task(live_check.check(ranks, self.watchpoints.all))
        check.add_done_callback(self._check_ended)
        limit = min(wait_seconds, MOST_WAIT_SECONDS) if wait_seconds > 0 else None
        await asyncio.wait({check}, timeout=limit)
        if check.done():
            self._checked = check.result()
        else:
            self._checked, self._late_check = RecheckView(True, 0, 0, 0), check
        self._changes.touch("status", "hits")

    def _check_ended(self, check: asyncio.Task[RecheckView]) -> None:
        """If nobody waited for it, what it found is shown now; what went wrong is not."""
        is_good = not check.cancelled() and check.exception() is None
        if check is self._late_check and self._checked is not None:
            self._checked = check.result() if is_good else None
            self._changes.touch("status", "hits")

    def watchpoints_changed(self) -> None:
        self._checked = None
        for rank in self.ranks.values():
            if rank.link is not None:
                rank.link.send(SetWatchpoints(self.watchpoints.all))
        self._changes.touch("watchpoints")

    async def graph(self, rank: int | None, graph: int | None) -> GraphIndex:
        known = self._steering.rank(rank)
        if graph is None:
            running = known.status.graph if known.status is not None else None
            graph = running if running in known.graphs else max(known.graphs, default=None)
        growing = known.graphs.get(graph) if graph is not None else None
        if growing is None or graph is None:
            which = "yet; run a step first" if graph is None else f"{graph}"
            others = f"; it has {sorted(known.graphs)}" if known.graphs else ""
            raise UsageError(
                f"rank {known.number} has no graph {which}{others}", slug="no-such-graph"
            )
        if growing.index is None:
            nodes, whole = tuple(growing.nodes), growing.is_whole
            index = await asyncio.to_thread(GraphIndex, graph, growing.name, nodes, whole=whole)
            if len(growing.nodes) != len(nodes):
                return index
            growing.index = index
        return growing.index

    def graph_of(self, rank: int, step: int) -> int | None:
        known = self.ranks.get(rank)
        return None if known is None else known.graph_of(step)

    def loss(self, rank: int | None, after: int) -> LossCurve:
        known = self._steering.rank(rank)
        return LossCurve(known.number, tuple(p for p in known.points if p.step > after))

    def _link(self, rank: int | None) -> RankLink:
        known = self._steering.rank(rank)
        if known.link is None:
            raise gone(f"rank {known.number}")
        return known.link

    async def ask(self, rank: int | None, tensor: TensorName, question: Question) -> AnyAnswer:
        return await live_values.ask(self._link(rank), tensor, question)

    async def file(self, rank: int | None, tensor: TensorName) -> NpyFile:
        return await live_values.download(self._link(rank), tensor)

    async def values(self, rank: int | None, tensor: TensorName) -> Values:
        array = await live_values.fetch(self._link(rank), tensor)
        index = await self.graph(rank, None)
        return Values(tensor, array, index.dtype(tensor) or array.dtype.name)

    async def curve(self, rank: int | None, tensor: TensorName) -> StatisticCurve:
        return await live_values.curve(self._link(rank), tensor)

    def close(self) -> None:
        for rank in self.ranks.values():
            if rank.link is not None:
                rank.link.close()


def _bounded(hit: Hit, rank: int) -> Hit:
    """The hit as it is kept: of this rank, whatever it says, and of a size that fits a page."""
    return msgspec.structs.replace(
        hit,
        rank=rank,
        why=hit.why[:MOST_TEXT],
        chain=hit.chain[:MOST_IN_CHAIN],
        values=hit.values[:MOST_IN_CHAIN],
    )
