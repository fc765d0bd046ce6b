"""Finds graphs of the ranks of a live run, and ops in them."""

from __future__ import annotations

import asyncio

from sonde.core.errors import UsageError
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.search import AmbiguousNameError, find_target
from sonde.server.live.rank import LiveRank


async def graph_index(rank: LiveRank, graph: int | None) -> GraphIndex:
    """The index of a graph of ``rank``, None: of the one that runs, or ran last. UsageError if
    there is no such graph."""
    if graph is None:
        running = rank.status.graph if rank.status is not None else None
        graph = running if running in rank.graphs else max(rank.graphs, default=None)
    partial = rank.graphs.get(graph) if graph is not None else None
    if partial is None or graph is None:
        which = "yet; run a step first" if graph is None else f"{graph}"
        others = f"; its graphs are {sorted(rank.graphs)}" if rank.graphs else ""
        raise UsageError(f"rank {rank.number} has no graph {which}{others}", slug="no-such-graph")
    if partial.index is None:
        nodes, whole = tuple(partial.nodes), partial.is_whole
        index = await asyncio.to_thread(GraphIndex, graph, partial.name, nodes, whole=whole)
        if len(partial.nodes) != len(nodes):
            return index  # More nodes arrived meanwhile; the next call builds the index again.
        partial.index = index
    return partial.index


async def target_name(rank: LiveRank, text: str) -> str:
    """The full name of the op or scope to run to; UsageError if none or several match.

    The running graph is searched first, then all others, the newest first: steps may differ, and
    the op may run again in a later step.
    """
    if not text:
        raise UsageError("no op given to run to", slug="bad-request")
    if not rank.graphs:
        if "/" not in text:
            raise UsageError(
                "no graph is known yet in which to find the op; run a step first, or give the "
                "full name",
                slug="no-such-op",
            )
        return text
    error: UsageError | None = None
    for number in (None, *sorted(rank.graphs, reverse=True)):
        try:
            return find_target(await graph_index(rank, number), text)
        except UsageError as other:
            # An error that lists candidates is more helpful than one that finds none.
            if error is None or not isinstance(error, AmbiguousNameError):
                error = other
    assert error is not None
    raise error
