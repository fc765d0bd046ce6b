"""A run whose ranks are or were connected."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Final

from sonde.core.errors import UsageError
from sonde.debugger.values.answers import Values
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.level_values import OpValues
from sonde.server.headlines import live_headline
from sonde.server.health.source import TrendSource
from sonde.server.http.events import Changes, EventBroker
from sonde.server.live import recorded_values
from sonde.server.live import values as live_values
from sonde.server.live.check import CheckNow
from sonde.server.live.control import RunControl
from sonde.server.live.findings_output import FindingsOutput
from sonde.server.live.preview import previewed
from sonde.server.live.rank import LiveRank
from sonde.server.live.rank_link import RankLink
from sonde.server.live.rank_messages import RankMessages
from sonde.server.live.ranks import LiveRanks
from sonde.server.run import NpyFile, Question
from sonde.server.watchpoint_set import WatchpointSet
from sonde.wire import api
from sonde.wire.questions import AnyAnswer, AskOp
from sonde.wire.rank import Hello, Keep, Record, SetWatchpoints, Welcome
from sonde.wire.shapes import BoxStatistic, DiagnosisView, TensorName
from sonde.wire.watchpoints import Preview, WatchpointDraft

_LEAD_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.5
_STEPS_FOR_HEALTH: Final = 3
RUN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class LiveRun:
    """The ranks of one training, also after they disconnect. Used in the event loop's thread."""

    def __init__(
        self,
        run: str,
        broker: EventBroker,
        *,
        paused: bool,
        output: FindingsOutput | None = None,
    ) -> None:
        self.id = run
        self._changes = Changes(run, broker)
        self._paused = paused
        self.watchpoints = WatchpointSet()
        self.ranks = LiveRanks(run)
        self._run_control = RunControl(self.ranks, self._changes)
        self.messages = RankMessages(self.ranks, self._run_control, self._changes, output)
        self.hits = self.messages.hits
        self._check = CheckNow(self._changes)
        self._told_waiting: dict[int, tuple[int, ...]] = {}
        self._looked_at = 0.0

    @property
    def may_be_forgotten(self) -> bool:
        return not self.ranks.is_connected

    def view(self) -> api.RunView:
        awaited = self._told_waiting = self.ranks.awaited()
        ranks = tuple(
            rank.view(self.hits.count(number), awaited[number])
            for number, rank in sorted(self.ranks.items())
        )
        losses = {number: rank.steps.points for number, rank in self.ranks.items()}
        return api.RunView(
            id=self.id,
            kind="live",
            title=self.ranks.title,
            revision=self._changes.revision,
            ranks=ranks,
            watchpoints=self.watchpoints.all,
            controls=self._run_control.commands(),
            notices=self.messages.notices,
            recheck=self._check.view,
            unobserved=self.messages.unobserved,
            headline=live_headline(
                ranks, self.hits.causes, losses, self.diagnosis, self.ranks.lost
            ),
            diagnosis=self.diagnosis,
            opens_with_health=all(rank.state != "paused" for rank in ranks)
            and any(len(points) >= _STEPS_FOR_HEALTH for points in losses.values()),
        )

    @property
    def diagnosis(self) -> DiagnosisView | None:
        """That of the lowest rank that has one: it speaks for all ranks."""
        known = (rank.diagnosis for _, rank in sorted(self.ranks.items()))
        return next((each for each in known if each is not None), None)

    # ----------------------------------------------------------------- ranks

    def join(
        self, hello: Hello, link: RankLink, *, heartbeat_seconds: float
    ) -> tuple[LiveRank, Welcome]:
        """Add a rank that connected, for the first time or again; returns the answer to it."""
        number = hello.metadata.rank
        is_new_run = not self.ranks
        known = self.ranks.get(number)
        if known is not None:
            known.disconnect()
        if known is None or not (hello.resumes and known.goodbye is None and known.is_same(hello)):
            if not hello.resumes:
                self._forget_extra_ranks(hello.metadata.world_size)
            known = self.ranks[number] = LiveRank(hello.metadata)
            self.hits.clear(number)
        if is_new_run and hello.watchpoints:
            self.watchpoints.adopt(hello.watchpoints)
        known.connect(hello.metadata, link)
        self.messages.comparison.join(number)
        self._run_control.note_generation(hello.generation)
        self._changes.touch("status", "watchpoints", "hits")
        is_paused = self._paused and not hello.resumes
        return known, Welcome(
            self.watchpoints.all,
            is_paused,
            self._run_control.generation,
            known.steps.last,
            known.last_hit,
            known.secret,
            heartbeat_seconds,
        )

    def _forget_extra_ranks(self, world_size: int) -> None:
        """Forget the ranks of an earlier training that the training that starts now has not: if no
        other rank is connected, it is a new training."""
        if self.may_be_forgotten:
            for number in [each for each in self.ranks if each >= world_size]:
                del self.ranks[number]
                self.hits.clear(number)

    def beat(self, link: RankLink) -> None:
        """Send a heartbeat; announce if the rank has not answered the last ones, or if a rank
        began to wait for another one."""
        was_answering = link.is_answering
        link.beat()
        if link.is_answering != was_answering or self._waits_otherwise():
            self._changes.touch("status")

    def _waits_otherwise(self) -> bool:
        """Whether other ranks wait than the page was told. Each rank has a heartbeat, and a job may
        have a thousand ranks: it is looked at twice a second."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return False
        self._looked_at = now
        return self.ranks.awaited() != self._told_waiting

    def hear(self, link: RankLink) -> None:
        """Note that a message came over ``link``."""
        was_answering = link.is_answering
        link.heard()
        if not was_answering:
            self._changes.touch("status")

    def leave(self, rank: LiveRank, link: RankLink, why: str) -> None:
        """Remove a connection that ended; ``why`` becomes a notice unless it is empty."""
        link.close()
        if rank.link is not link:
            return
        rank.disconnect()
        self.messages.comparison.lose(rank)
        if why:
            self.messages.add_notice(f"rank {rank.number}: {why} [rank-unreadable]")
        self._changes.touch("status", "notices")

    # -------------------------------------------------------------- requests

    async def control(self, request: api.ControlRequest) -> None:
        """Send a command to the ranks; UsageError if none is connected."""
        self._check.forget()
        await self._run_control.control(request)

    async def keep(self, request: api.KeepRequest) -> None:
        if not 0 <= request.steps <= 1000:
            raise UsageError(
                f"steps must be from 0 to 1000 (got {request.steps})", slug="bad-request"
            )
        self._need_values("could be kept")
        for rank in self.ranks.demand_connected(request.rank):
            rank.send(Keep(request.ops, request.steps))

    def measure_speed(self) -> None:
        """Let the ranks run one coming step unobserved; UsageError if none is connected."""
        ranks = self.ranks.demand_connected(None)
        first = max(rank.step for rank in ranks)
        if len(ranks) > 1 and any(rank.state == "running" for rank in ranks):
            # The same step on all ranks, so far ahead that the message reaches them before it.
            seconds = max(rank.steps.seconds or 0.0 for rank in ranks)
            first += 2 + round(_LEAD_SECONDS / max(seconds, 1e-3))
        for rank in ranks:
            rank.measure_speed(first)
        self._changes.touch("status")

    async def recheck(self, wait_seconds: float) -> None:
        """Evaluate the watchpoints on the values that the ranks have now. A rank that runs answers
        at the end of its step. Waits up to ``wait_seconds``; 0: until all ranks have answered."""
        await self._check.run(self.ranks.connected(), self.watchpoints.all, wait_seconds)
        self._changes.touch("status", "hits")

    def stop_recheck(self) -> None:
        """A check at a pause is short: there is nothing to stop."""

    def need_watchable(self) -> None:
        """UsageError if all ranks have ended. A rank that was lost may connect again."""
        self._need_values("a watchpoint could be evaluated on")

    def _need_values(self, purpose: str) -> None:
        if self.ranks and all(rank.state == "ended" for rank in self.ranks.values()):
            raise UsageError(
                f"run {self.id!r} has ended: it computes no more values that {purpose}",
                slug="run-ended",
            )

    def watchpoints_changed(self) -> None:
        self._check.forget()
        self.ranks.send(SetWatchpoints(self.watchpoints.all))
        self._changes.touch("watchpoints")

    async def graph(self, rank: int | None, graph: int | None) -> GraphIndex:
        return await self.ranks.find(rank).graph(graph)

    def graph_of(self, rank: int, step: int) -> int | None:
        known = self.ranks.get(rank)
        return None if known is None else known.graph_of(step)

    async def loss(self, rank: int | None, after: int) -> api.LossCurve:
        known = self.ranks.find(rank)
        return api.LossCurve(known.number, tuple(p for p in known.steps.points if p.step > after))

    async def trends(self, rank: int | None) -> TrendSource:
        known = self.ranks.find(rank)
        try:
            nodes = (await known.graph(None)).nodes
        except UsageError:
            nodes = ()
        return known.trends(nodes)

    async def ask(self, rank: int | None, tensor: TensorName, question: Question) -> AnyAnswer:
        known = self.ranks.find(rank)
        if isinstance(question, AskOp):
            return await recorded_values.op_tensors(known, tensor)
        return await live_values.ask(self.ranks.link(rank), tensor, question)

    async def file(self, rank: int | None, tensor: TensorName) -> NpyFile:
        return await live_values.download(self.ranks.link(rank), tensor)

    async def values(self, rank: int | None, tensor: TensorName) -> Values:
        array = await live_values.fetch(self.ranks.link(rank), tensor)
        index = await self.graph(rank, None)
        return Values(tensor, array, index.dtype(tensor) or array.dtype.name)

    async def op_values(
        self, rank: int | None, graph: int | None, step: int | None, statistic: BoxStatistic
    ) -> OpValues:
        if statistic == "distance":
            raise UsageError("a training is not compared with another dump", slug="no-comparison")
        index = await self.graph(rank, graph)
        return await recorded_values.op_values(self.ranks.find(rank), index, step, statistic)

    async def curve(self, rank: int | None, tensor: TensorName) -> api.StatisticCurve:
        return await recorded_values.curve(self.ranks.find(rank), tensor)

    async def preview(self, rank: int | None, draft: WatchpointDraft) -> Preview:
        known = self.ranks.find(rank)
        try:
            index = await known.graph(None)
        except UsageError:
            return Preview(None, 0, 0, 0)
        history = known.history
        return await asyncio.to_thread(previewed, draft, index.nodes, history.last_step())

    async def record(self, request: api.RecordRequest) -> None:
        """Record the statistics of an op in every step; UsageError if no rank is connected."""
        self._need_values("could be recorded")
        for rank in self.ranks.demand_connected(request.rank):
            op, _ = await recorded_values.maker(
                rank, TensorName(request.op, request.io, request.slot)
            )
            if not rank.history.is_measured(op):
                rank.send(Record(op, request.is_on))

    def close(self) -> None:
        self.messages.comparison.finish()
        for rank in self.ranks.values():
            rank.disconnect()
