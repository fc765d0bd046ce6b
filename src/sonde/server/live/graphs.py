"""The graphs of one rank of a live run, and ops in them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sonde.core.errors import UsageError
from sonde.server.graph.differences import difference
from sonde.server.graph.index import GraphIndex, has_compiled_code
from sonde.server.graph.search import AmbiguousNameError, find_target
from sonde.server.live.first_step import possible_target
from sonde.wire.framing import FrameError
from sonde.wire.graphs import GraphInfo
from sonde.wire.rank import GraphPart
from sonde.wire.shapes import GraphBasis, Node

MOST_GRAPHS: Final = 200
MOST_NODES: Final = 2_000_000
"""In all graphs of a rank together."""
_NEARLY_ALL: Final = 0.8


@dataclass(slots=True)
class _LiveGraph:
    """A graph whose parts are arriving; ``index`` is built when it is first used."""

    name: str
    basis: GraphBasis
    nodes: list[Node] = field(default_factory=list)
    total: int | None = None
    optimizer: str = ""
    size: int = 0
    index: GraphIndex | None = None
    building: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the index is built, because the page asks for several things at once."""
    places: dict[str, int] = field(default_factory=dict)
    """The place of each node by its name."""
    compared: tuple[int, int | None] = (0, None)
    """How many nodes there were when the graph like this one was searched, and that graph."""
    difference: tuple[_LiveGraph, str] | None = None
    """The usual graph, and how this one differs from it."""
    is_compiled: bool = False
    has_modules: bool = False
    """Whether ops of modules are among the nodes."""

    @property
    def is_whole(self) -> bool:
        return self.total is not None and len(self.nodes) == self.total

    def has(self, part: GraphPart) -> bool:
        """Whether the part is known already."""
        here = self.nodes[part.first : part.first + len(part.nodes)] if part.first >= 0 else ()
        return self.total == part.total and tuple(here) == part.nodes


class LiveGraphs:
    """The graphs that one rank has sent. Used in the event loop's thread only.

    ``leaves`` are the names of all inputs and parameters in them.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._graphs: dict[int, _LiveGraph] = {}
        self.leaves: set[str] = set()

    @property
    def held_bytes(self) -> int:
        """The size of all graphs, as they were sent."""
        return sum(graph.size for graph in self._graphs.values())

    @property
    def has_whole(self) -> bool:
        """Whether a graph of a whole step is known."""
        return any(each.is_whole and each.basis == "run" for each in self._graphs.values())

    def add(self, part: GraphPart, size: int) -> bool:
        """Add nodes of a graph, ``size`` bytes of them; False if there are too many. FrameError for
        a part out of order."""
        graph = self._graphs.get(part.graph)
        if graph is not None and graph.has(part):
            return True  # Sent again after a reconnect; the index stays valid.
        if graph is None or part.first == 0:
            if graph is None and len(self._graphs) >= MOST_GRAPHS:
                return False
            graph = self._graphs[part.graph] = _LiveGraph(part.name, part.basis)
        if not 0 <= part.first <= len(graph.nodes):
            raise FrameError(f"nodes of graph {part.graph} are out of order, from {part.first} on")
        if sum(len(each.nodes) for each in self._graphs.values()) + len(part.nodes) > MOST_NODES:
            return False
        if part.first < len(graph.nodes):
            # A part that replaces nodes: a graph that was still incomplete is sent again.
            graph.size -= graph.size * (len(graph.nodes) - part.first) // len(graph.nodes)
        graph.size += size
        for node in graph.nodes[part.first :]:
            graph.places.pop(node.name, None)
        del graph.nodes[part.first :]
        graph.nodes.extend(part.nodes)
        graph.places.update((node.name, part.first + n) for n, node in enumerate(part.nodes))
        graph.has_modules = graph.has_modules or any(map(_is_in_module, part.nodes))
        graph.is_compiled = graph.is_compiled or has_compiled_code(part.nodes)
        graph.total = part.total
        graph.index = None
        # Gradients are leaves that exist only after the backward pass, not before the first op.
        self.leaves.update(
            node.name
            for node in part.nodes
            if node.kind != "op" and "gradient" not in node.categories
        )
        return True

    def set_optimizer(self, number: int | None, optimizer: str) -> None:
        """Note which optimizer stepped in a step that ran graph ``number``."""
        if number is not None and number in self._graphs:
            self._graphs[number].optimizer = optimizer

    @property
    def infos(self) -> tuple[GraphInfo, ...]:
        return self.described({}, None)

    def described(
        self, steps: Mapping[int, tuple[tuple[int, int], ...]], op: str | None
    ) -> tuple[GraphInfo, ...]:
        """The graphs, with the steps that ran them, and the place of the current op.

        An op outside of all modules may have the name of another one in a graph of another step:
        while a graph is growing, only that one has its place.
        """
        newest = next(reversed(self._graphs.values()), None)
        growing = None if newest is None or newest.is_whole or newest.basis != "run" else newest
        at = -1 if growing is None or op is None else growing.places.get(op, -1)
        is_ambiguous = growing is not None and at >= 0 and not _is_in_module(growing.nodes[at])
        return tuple(
            GraphInfo(
                number,
                graph.name,
                len(graph.nodes),
                graph.is_whole,
                graph.optimizer,
                graph.basis,
                steps.get(number, ()),
                None if graph.is_whole else self._like(graph, op),
                None
                if op is None or (is_ambiguous and graph is not growing)
                else graph.places.get(op),
                self._difference(graph),
                graph.is_compiled,
            )
            for number, graph in self._graphs.items()
        )

    def _like(self, growing: _LiveGraph, op: str | None) -> int | None:
        """The whole graph that shows what comes next in a step whose graph is growing: the newest
        that has nearly all ops that have run in modules, and ``op``, where the training is.

        What makes the batch has no part in that, because it is not in the graph of the first step:
        while nothing else has run, the newest graph is taken.
        """
        count, found = growing.compared
        if growing.basis != "run":
            return None
        if count != len(growing.nodes):
            found = self._most_alike(growing)
            growing.compared = len(growing.nodes), found
        if found is None or not growing.has_modules or op is None:
            return found
        return found if op in self._graphs[found].places else None

    def _most_alike(self, growing: _LiveGraph) -> int | None:
        inside = [node for node in growing.nodes if _is_in_module(node)]
        decisive = inside or growing.nodes
        for number, graph in reversed(self._graphs.items()):
            if not graph.is_whole:
                continue
            if graph.has_modules and not inside:
                return number
            known = sum(node.name in graph.places for node in decisive)
            if known >= _NEARLY_ALL * len(decisive):
                return number
        return None

    def _difference(self, graph: _LiveGraph) -> str:
        """How the graph differs from the newest of the same optimizer."""
        usual = next(
            (
                each
                for each in reversed(self._graphs.values())
                if each.is_whole and each.optimizer == graph.optimizer
            ),
            None,
        )
        if usual is None or usual is graph or not graph.is_whole:
            return ""
        if graph.difference is None or graph.difference[0] is not usual:
            found = difference((graph.nodes, graph.places), (usual.nodes, usual.places))
            graph.difference = usual, found
        return graph.difference[1]

    async def index(self, number: int | None, running: int | None) -> GraphIndex:
        """The index of a graph, None: of graph ``running``, or else the newest. UsageError if there
        is no such graph."""
        if number is None:
            number = running if running in self._graphs else max(self._graphs, default=None)
        graph = self._graphs.get(number) if number is not None else None
        if graph is None or number is None:
            which = "yet; run a step first" if number is None else f"{number}"
            others = f"; its graphs are {sorted(self._graphs)}" if self._graphs else ""
            raise UsageError(
                f"rank {self._rank} has no graph {which}{others}", slug="no-such-graph"
            )
        async with graph.building:
            if graph.index is None:
                nodes, whole = tuple(graph.nodes), graph.is_whole
                index = await asyncio.to_thread(GraphIndex, number, graph.name, nodes, whole=whole)
                if len(graph.nodes) != len(nodes):
                    return index  # More nodes arrived; the next call builds the index again.
                graph.index = index
            return graph.index

    async def target_name(self, text: str, running: int | None) -> str:
        """The full name of the op or scope to run to; UsageError if none or several match.

        Graph ``running`` is searched first, then all others, the newest first: steps may differ,
        and the op may run again in a later step.
        """
        if not text:
            raise UsageError("no op given to run to", slug="bad-request")
        error: UsageError | None = None
        for number in (None, *sorted(self._graphs, reverse=True)) if self._graphs else ():
            index = await self.index(number, running)
            try:
                found = find_target(index, text)
            except UsageError as other:
                # An error that lists candidates is more helpful than one that finds none.
                if error is None or not isinstance(error, AmbiguousNameError):
                    error = other
            else:
                return self._runnable(index, found)
        if isinstance(error, AmbiguousNameError) or any(
            graph.is_whole for graph in self._graphs.values()
        ):
            assert error is not None
            raise error
        return possible_target(await self.index(None, running) if self._graphs else None, text)

    def _runnable(self, index: GraphIndex, target: str) -> str:
        """``target``, or the scope of a module whose ops are not known yet."""
        if target.endswith("/"):
            return target
        node = index.node(target)
        if node.kind != "op":
            raise UsageError(
                f"{target} is a {node.kind} that ops read: run to an op instead", slug="no-such-op"
            )
        stands_for_module = self._graphs[index.graph].basis != "run" and not node.outputs
        return f"{node.scope}/" if stands_for_module else target


def _is_in_module(node: Node) -> bool:
    return node.kind == "op" and "/" in node.scope
