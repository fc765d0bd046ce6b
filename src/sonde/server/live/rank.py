"""The state of one rank, as its messages describe it."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from sonde.core.errors import UsageError
from sonde.server.crashes import bounded_call
from sonde.server.findings import bounded
from sonde.server.graph.index import GraphIndex
from sonde.server.health.live import LiveTrends
from sonde.server.live.graphs import LiveGraphs
from sonde.server.live.history import StatisticHistory
from sonde.server.live.rank_link import RankLink
from sonde.server.live.steps import StepHistory
from sonde.wire.api import RankView
from sonde.wire.rank import FromServer, Goodbye, Hello, Kept, MeasureSpeed, Status, StepDone
from sonde.wire.shapes import DiagnosisView, Metadata, Node, State

MOST_TEXT: Final = 2000
_MOST_NAME: Final = 200
_MOST_FRAMES: Final = 100
_MOST_KEPT: Final = 1000
_WAITING: Final = Status("waiting", 0, None, None, None, None, "connected", 0)


class LiveRank:
    """What one rank has sent, and its connection while it is connected. Only its own methods change
    its fields. ``heard_at``: when it last told its state or the end of a step. Used in the event
    loop's thread only."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.secret = secrets.token_urlsafe(32)
        self.link: RankLink | None = None
        self.graphs = LiveGraphs(metadata.rank)
        self.steps = StepHistory()
        self.history = StatisticHistory()
        self._kept = Kept((), ())
        self.diagnosis: DiagnosisView | None = None
        self._recording: int | None = None
        self.last_hit = -1
        self.goodbye: Goodbye | None = None
        self._status = _WAITING
        self._generation = 0
        self._is_measuring = False
        self._address = ""
        self.heard_at = time.monotonic()
        self.lost_at = 0.0

    @property
    def step(self) -> int:
        return self._status.step

    @property
    def number(self) -> int:
        return self.metadata.rank

    @property
    def state(self) -> State:
        if self.goodbye is not None:
            return "ended"
        return "lost" if self.link is None else self._status.state

    @property
    def has_settled(self) -> bool:
        """Whether the rank executed the last command and is paused, or is gone."""
        if self.state == "paused":
            return self._status.generation >= self._generation
        return self.state in ("ended", "lost")

    def is_same(self, hello: Hello) -> bool:
        """Whether ``hello`` is of the same process: only that process knows the secret. Host and
        process id prove nothing, because the page shows them."""
        return hmac.compare_digest(hello.secret.encode(), self.secret.encode())

    # ------------------------------------------------------------ connection

    def connect(self, metadata: Metadata, link: RankLink) -> None:
        self.metadata = metadata
        self.link = link
        self._address = link.address

    def measure_speed(self, first: int) -> None:
        """Ask the rank to run one step unobserved, ``first`` or a later one."""
        self._is_measuring = True
        self.send(MeasureSpeed(first))

    def disconnect(self) -> None:
        if self.link is not None:
            self.link.close()
        self.link = None
        self.lost_at = time.monotonic()

    def send(self, message: FromServer) -> None:
        """Send ``message`` if the rank is connected."""
        if self.link is not None:
            self.link.send(message)

    def expect(self, generation: int) -> None:
        """Command ``generation`` is about to be sent; the rank settles when it has executed it."""
        self._generation = generation

    # -------------------------------------------------------------- messages

    def set_status(self, status: Status) -> None:
        self.heard_at = time.monotonic()
        self._status = msgspec.structs.replace(status, message=status.message[:MOST_TEXT])

    def add_step(self, done: StepDone) -> None:
        self.heard_at = time.monotonic()
        point, graph = done.point, done.graph
        if len(point.optimizer) > _MOST_NAME:
            point = msgspec.structs.replace(point, optimizer=point.optimizer[:_MOST_NAME])
        if point.observed and point.step > self.steps.last:
            self.graphs.set_optimizer(graph, point.optimizer)
        self.steps.add(point, graph)
        if done.is_measurement:
            self._is_measuring = False

    def set_kept(self, kept: Kept) -> None:
        self._kept = Kept(kept.ops[:_MOST_KEPT], kept.recorded[:_MOST_KEPT])

    def set_diagnosis(self, diagnosis: DiagnosisView) -> None:
        self.diagnosis = bounded(diagnosis)

    @property
    def recorded(self) -> tuple[str, ...]:
        """The ops whose statistics are recorded in every step."""
        return self._kept.recorded

    def set_progress(self, ops: int) -> None:
        """Note how many ops of the running step have run, while there is no graph yet."""
        self._recording = ops

    def note_hit(self, number: int) -> None:
        self.last_hit = max(self.last_hit, number)

    def end(self, goodbye: Goodbye) -> None:
        error, frames = goodbye.error[:MOST_TEXT], goodbye.frames[-_MOST_FRAMES:]
        failed = None if goodbye.failed is None else bounded_call(goodbye.failed)
        self.goodbye = msgspec.structs.replace(goodbye, error=error, frames=frames, failed=failed)

    # --------------------------------------------------------------- answers

    async def graph(self, number: int | None) -> GraphIndex:
        """The index of a graph, None: of the one that runs, or ran last; UsageError without it."""
        if self.state == "waiting" and not self.graphs.infos:
            raise UsageError(
                f"rank {self.number} has no graph yet: its first step has not begun; try again "
                "later",
                slug="no-such-graph",
            )
        return await self.graphs.index(number, self._status.graph)

    async def target_name(self, text: str) -> str:
        """The full name of the op or scope to run to; UsageError if none or several match."""
        return await self.graphs.target_name(text, self._status.graph)

    def graph_of(self, step: int) -> int | None:
        """The graph of the step; None if its ops were not observed."""
        if step > self.steps.last:
            return self._status.graph if self._status.step == step else None
        return self.steps.graph_of(step)

    def trends(self, nodes: Sequence[Node]) -> LiveTrends:
        """Signals and statistics over the steps so far; ``nodes``: of the graph that ran last."""
        names, norms, rows = self.history.snapshot()
        return LiveTrends(self.number, tuple(self.steps.points), names, norms, rows, nodes)

    def view(self, hits: int, waits_for: tuple[int, ...] = ()) -> RankView:
        status, goodbye = self._status, self.goodbye
        is_paused, is_running = self.state == "paused", self.state == "running"
        return RankView(
            rank=self.number,
            state=self.state,
            step=status.step,
            graph=status.graph,
            op=status.op,
            order=status.order,
            reason=status.reason if is_paused else None,
            message=self._message(),
            hits=hits,
            graphs=self.graphs.described(self.steps.by_graph(), status.op),
            steps=(),
            metadata=self.metadata,
            seconds=self.steps.seconds,
            bare_seconds=self.steps.bare_seconds,
            exit_code=None if goodbye is None else goodbye.exit_code,
            error="" if goodbye is None else goodbye.error,
            is_terminated=goodbye is not None and goodbye.is_terminated,
            hit=status.hit if is_paused else None,
            is_measuring=self._is_measuring and self.state not in ("ended", "lost"),
            is_answering=self.link is None or self.link.is_answering,
            address=self._address,
            frames=() if goodbye is None else goodbye.frames,
            failed=None if goodbye is None else goodbye.failed,
            waits_for=waits_for,
            kept=self._kept.ops,
            recorded=self._kept.recorded,
            recording=None if self.graphs.has_whole or not is_running else self._recording,
        )

    def _message(self) -> str:
        if self.goodbye is not None:
            return self.goodbye.error or f"ended with exit code {self.goodbye.exit_code}"
        if self.link is None:
            return "the connection was lost; the last known state is shown"
        if not self.link.is_answering:
            return "the process does not answer; the last known state is shown"
        return self._status.message
