"""What the server knows of one training process."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from sonde.server.frames import BadFrameError
from sonde.server.graph_index import GraphIndex
from sonde.server.rank_link import RankLink
from sonde.server.speed import speed_of
from sonde.wire.api import GraphInfo, RankView
from sonde.wire.rank import Goodbye, GraphPart, Status
from sonde.wire.shapes import LossPoint, Metadata, Node, State

MOST_GRAPHS: Final = 200
MOST_NODES: Final = 2_000_000
"""Of all graphs of a rank together."""
MOST_POINTS: Final = 200_000
_MOST_NAME: Final = 200
_RECENT: Final = 50


@dataclass(slots=True)
class GrowingGraph:
    """A graph as its parts arrive; ``index`` is made when it is looked at."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    total: int | None = None
    optimizer: str = ""
    index: GraphIndex | None = None

    @property
    def is_whole(self) -> bool:
        return self.total is not None and len(self.nodes) == self.total

    def has(self, part: GraphPart) -> bool:
        """Whether the part says nothing new."""
        here = self.nodes[part.first : part.first + len(part.nodes)] if part.first >= 0 else ()
        return self.total == part.total and tuple(here) == part.nodes


class LiveRank:
    """Everything one rank said, and its connection while there is one."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.link: RankLink | None = None
        self.status: Status | None = None
        self.goodbye: Goodbye | None = None
        self.generation = 0
        self.graphs: dict[int, GrowingGraph] = {}
        self.leaves: set[str] = set()
        self.points: list[LossPoint] = []
        self.last_step = -1
        self.last_hit = -1
        self._graph_changes: list[tuple[int, int | None]] = []
        self._recent: deque[LossPoint] = deque(maxlen=_RECENT)

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
        """It obeyed the last control and waits for the next, or will never obey another."""
        if self.state in ("ended", "lost"):
            return True
        status = self.status
        return status is not None and (
            status.state == "paused" and status.generation >= self.generation
        )

    def is_same(self, metadata: Metadata) -> bool:
        """Whether that is the process all this is about, and it has not ended."""
        there, here = self.metadata, metadata
        return self.goodbye is None and (there.host, there.pid) == (here.host, here.pid)

    def add_part(self, part: GraphPart) -> bool:
        """False if there is no room for it; BadFrameError for a part that does not fit."""
        graph = self.graphs.get(part.graph)
        if graph is not None and graph.has(part):
            return True  # It is told again, and the index stays.
        if graph is None or part.first == 0:
            if graph is None and len(self.graphs) >= MOST_GRAPHS:
                return False
            graph = self.graphs[part.graph] = GrowingGraph(part.name)
        if not 0 <= part.first <= len(graph.nodes):
            raise BadFrameError(f"nodes of graph {part.graph} from {part.first} on, out of order")
        if sum(len(each.nodes) for each in self.graphs.values()) + len(part.nodes) > MOST_NODES:
            return False
        del graph.nodes[part.first :]
        graph.nodes.extend(part.nodes)
        graph.total = part.total
        graph.index = None
        # What a gradient is, is known at the end of the backward pass, not before the first op.
        self.leaves.update(
            node.name
            for node in part.nodes
            if node.kind != "op" and "gradient" not in node.categories
        )
        return True

    def add_point(self, point: LossPoint, graph: int | None) -> None:
        """Steps that came before are not entered twice; of very many every second is dropped."""
        if point.step <= self.last_step:
            return
        if len(point.optimizer) > _MOST_NAME:
            point = msgspec.structs.replace(point, optimizer=point.optimizer[:_MOST_NAME])
        self._note_graph(point.step, graph if point.observed else None)
        if point.observed and graph in self.graphs:
            self.graphs[graph].optimizer = point.optimizer
        self.last_step = point.step
        if len(self.points) == 1:
            self._recent.clear()  # A first step warms up, and tells nothing of the others.
        self.points.append(point)
        self._recent.append(point)
        if len(self.points) > MOST_POINTS:
            self.points = _thinned(self.points)

    def _note_graph(self, step: int, graph: int | None) -> None:
        """Where the graph changes; of very many changes the first."""
        changes = self._graph_changes
        if len(changes) > MOST_POINTS:
            graph = None
        if step != self.last_step + 1 and changes and changes[-1][1] is not None:
            changes.append((self.last_step + 1, None))
        if not changes or changes[-1][1] != graph:
            changes.append((step, graph))

    def graph_of(self, step: int) -> int | None:
        """The graph that ran, or runs, in the step, if that is known: its ops were observed."""
        if step > self.last_step:
            status = self.status
            return status.graph if status is not None and status.step == step else None
        at = bisect_right(self._graph_changes, step, key=lambda change: change[0]) - 1
        return self._graph_changes[at][1] if at >= 0 else None

    def view(self, hits: int) -> RankView:
        status = self.status
        speed = speed_of(self._recent)
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
            is_bare_estimated=speed.is_estimated,
            exit_code=None if self.goodbye is None else self.goodbye.exit_code,
        )

    def _message(self) -> str:
        if self.goodbye is not None:
            return self.goodbye.error or f"ended with exit code {self.goodbye.exit_code}"
        if self.link is None:
            return "the connection was lost; what was known is shown"
        return self.status.message if self.status is not None else "connected"


def _thinned(points: Sequence[LossPoint]) -> list[LossPoint]:
    """Every second, of each optimizer: where two take turns, one of them would be gone. Of very
    many optimizers every second of all."""
    is_kept: dict[str, bool] = {}
    kept: list[LossPoint] = []
    for point in points:
        now = is_kept[point.optimizer] = not is_kept.get(point.optimizer, False)
        if now:
            kept.append(point)
    return kept if len(kept) <= len(points) * 3 // 4 else list(points[::2])
