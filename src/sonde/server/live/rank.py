"""The state of one rank, as its messages describe it."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from sonde.server.graph.index import GraphIndex
from sonde.server.live.rank_link import RankLink
from sonde.server.live.speed import speed_of
from sonde.wire.api import GraphInfo, RankView
from sonde.wire.framing import FrameError
from sonde.wire.rank import Goodbye, GraphPart, Status
from sonde.wire.shapes import LossPoint, Metadata, Node, State

MOST_GRAPHS: Final = 200
MOST_NODES: Final = 2_000_000
"""In all graphs of a rank together."""
MOST_POINTS: Final = 200_000
_MOST_NAME: Final = 200
_RECENT: Final = 50


@dataclass(slots=True)
class PartialGraph:
    """A graph whose parts are arriving; ``index`` is built when it is first used."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    total: int | None = None
    optimizer: str = ""
    index: GraphIndex | None = None

    @property
    def is_whole(self) -> bool:
        return self.total is not None and len(self.nodes) == self.total

    def has(self, part: GraphPart) -> bool:
        """Whether the part is known already."""
        here = self.nodes[part.first : part.first + len(part.nodes)] if part.first >= 0 else ()
        return self.total == part.total and tuple(here) == part.nodes


class LiveRank:
    """What one rank has sent, and its connection while it is connected."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.link: RankLink | None = None
        self.status: Status | None = None
        self.goodbye: Goodbye | None = None
        self.generation = 0
        self.graphs: dict[int, PartialGraph] = {}
        self.leaves: set[str] = set()
        self.points: list[LossPoint] = []
        self.last_step = -1
        self.last_hit = -1
        self._graph_changes: list[tuple[int, int | None]] = []
        self._recent: deque[LossPoint] = deque(maxlen=_RECENT)
        # Kept apart: they are the last ones for as long as a watchpoint wants every op.
        self._bare: deque[LossPoint] = deque(maxlen=_RECENT)

    @property
    def number(self) -> int:
        return self.metadata.rank

    @property
    def state(self) -> State:
        if self.goodbye is not None:
            return "ended"
        if self.link is None:
            return "lost"
        return "waiting" if self.status is None else self.status.state

    @property
    def has_settled(self) -> bool:
        """Whether the rank executed the last command and is paused, or is gone."""
        if self.state in ("ended", "lost"):
            return True
        status = self.status
        return status is not None and (
            status.state == "paused" and status.generation >= self.generation
        )

    def is_same(self, metadata: Metadata) -> bool:
        """Whether ``metadata`` is of the same process, and it has not ended."""
        there, here = self.metadata, metadata
        return self.goodbye is None and (there.host, there.pid) == (here.host, here.pid)

    def add_part(self, part: GraphPart) -> bool:
        """Add nodes of a graph; False if there are too many. FrameError for a part out of order."""
        graph = self.graphs.get(part.graph)
        if graph is not None and graph.has(part):
            return True  # Sent again after a reconnect; the index stays valid.
        if graph is None or part.first == 0:
            if graph is None and len(self.graphs) >= MOST_GRAPHS:
                return False
            graph = self.graphs[part.graph] = PartialGraph(part.name)
        if not 0 <= part.first <= len(graph.nodes):
            raise FrameError(f"nodes of graph {part.graph} are out of order, from {part.first} on")
        if sum(len(each.nodes) for each in self.graphs.values()) + len(part.nodes) > MOST_NODES:
            return False
        del graph.nodes[part.first :]
        graph.nodes.extend(part.nodes)
        graph.total = part.total
        graph.index = None
        # Gradients are leaves that exist only after the backward pass, not before the first op.
        self.leaves.update(
            node.name
            for node in part.nodes
            if node.kind != "op" and "gradient" not in node.categories
        )
        return True

    def add_point(self, point: LossPoint, graph: int | None) -> None:
        """Add a step, unless it is known. Beyond ``MOST_POINTS`` every second point is dropped."""
        if point.step <= self.last_step:
            return
        if len(point.optimizer) > _MOST_NAME:
            point = msgspec.structs.replace(point, optimizer=point.optimizer[:_MOST_NAME])
        self._note_graph(point.step, graph if point.observed else None)
        if point.observed and graph in self.graphs:
            self.graphs[graph].optimizer = point.optimizer
        self.last_step = point.step
        if len(self.points) == 1:
            # The first step is slow, and not typical for the others.
            self._recent.clear()
            self._bare.clear()
        self.points.append(point)
        self._recent.append(point)
        if point.bare_seconds is not None:
            self._bare.append(point)
        if len(self.points) > MOST_POINTS:
            self.points = _thinned(self.points)

    def _note_graph(self, step: int, graph: int | None) -> None:
        """Note in which step the graph changes; only the first ``MOST_POINTS`` changes are kept."""
        changes = self._graph_changes
        if len(changes) > MOST_POINTS:
            graph = None
        if step != self.last_step + 1 and changes and changes[-1][1] is not None:
            changes.append((self.last_step + 1, None))
        if not changes or changes[-1][1] != graph:
            changes.append((step, graph))

    def graph_of(self, step: int) -> int | None:
        """The graph of the step; None if its ops were not observed."""
        if step > self.last_step:
            status = self.status
            return status.graph if status is not None and status.step == step else None
        at = bisect_right(self._graph_changes, step, key=lambda change: change[0]) - 1
        return self._graph_changes[at][1] if at >= 0 else None

    def view(self, hits: int) -> RankView:
        status = self.status
        speed = speed_of(self._recent, self._bare)
        return RankView(
            rank=self.number,
            state=self.state,
            step=status.step if status is not None else 0,
            graph=status.graph if status is not None else None,
            op=status.op if status is not None else None,
            order=status.order if status is not None else None,
            reason=status.reason if status is not None and self.state == "paused" else None,
            message=self._message(),
            hits=hits,
            graphs=tuple(
                GraphInfo(number, graph.name, len(graph.nodes), graph.is_whole, graph.optimizer)
                for number, graph in self.graphs.items()
            ),
            steps=(),
            metadata=self.metadata,
            seconds=speed.seconds,
            bare_seconds=speed.bare_seconds,
            exit_code=None if self.goodbye is None else self.goodbye.exit_code,
            error="" if self.goodbye is None else self.goodbye.error,
            is_terminated=self.goodbye is not None and self.goodbye.is_terminated,
            hit=status.hit if status is not None and self.state == "paused" else None,
        )

    def _message(self) -> str:
        if self.goodbye is not None:
            return self.goodbye.error or f"ended with exit code {self.goodbye.exit_code}"
        if self.link is None:
            return "the connection was lost; the last known state is shown"
        return self.status.message if self.status is not None else "connected"


def _thinned(points: Sequence[LossPoint]) -> list[LossPoint]:
    """Every second point of each optimizer: of all points, one of two optimizers that take turns
    would disappear. With very many optimizers every second point of all."""
    is_kept: dict[str, bool] = {}
    kept: list[LossPoint] = []
    for point in points:
        now = is_kept[point.optimizer] = not is_kept.get(point.optimizer, False)
        if now:
            kept.append(point)
    return kept if len(kept) <= len(points) * 3 // 4 else list(points[::2])
