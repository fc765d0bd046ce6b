"""Routes of the comparison of two dumps: verdict, pairs, unpaired ops, marks in the graph."""

from __future__ import annotations

import asyncio

from sonde.core.errors import UsageError
from sonde.server.comparison.background import BackgroundComparison
from sonde.server.comparison.views import ComparisonPages
from sonde.server.dumps.run import DumpRun
from sonde.server.http.endpoint import Call, Endpoint
from sonde.server.routes.runs import RUN
from sonde.wire import comparison as wire
from sonde.wire import queries


def _of(call: Call) -> BackgroundComparison:
    found = call.run.comparison if isinstance(call.run, DumpRun) else None
    if found is None:
        raise UsageError(
            "no comparison: open two dumps with sonde view DIR DIR2",
            slug="no-comparison",
        )
    return found


def _pages(call: Call) -> tuple[ComparisonPages, wire.Side]:
    found = _of(call)
    if found.pages is None:
        raise UsageError("the comparison has failed or is not finished yet", slug="no-comparison")
    return found.pages, found.side(call.run.id)


async def show(call: Call) -> wire.ComparisonView:
    return _of(call).view(call.run.id)


async def pairs(call: Call) -> wire.PairPage:
    pages, side = _pages(call)
    return await asyncio.to_thread(pages.pairs, side, call.query)


async def unpaired(call: Call) -> wire.UnpairedPage:
    pages, _ = _pages(call)
    return await asyncio.to_thread(pages.unpaired, call.query)


async def marks(call: Call) -> wire.LevelMarks:
    query: queries.LevelQuery = call.query
    pages, side = _pages(call)
    index = await call.run.graph(query.rank, query.graph)
    rank = call.run.view().ranks[0].rank if query.rank is None else query.rank
    return await asyncio.to_thread(pages.marks, side, rank, index, query.scope, query.group)


COMPARISON = f"{RUN}/comparison"

ENDPOINTS = (
    Endpoint("GET", COMPARISON, "The comparison with the other dump", show, wire.ComparisonView),
    Endpoint(
        "GET",
        f"{COMPARISON}/pairs",
        "Pairs of ops, and how their tensors differ",
        pairs,
        wire.PairPage,
        queries.PairsQuery,
    ),
    Endpoint(
        "GET",
        f"{COMPARISON}/unpaired",
        "Ops without a counterpart",
        unpaired,
        wire.UnpairedPage,
        queries.UnpairedQuery,
    ),
    Endpoint(
        "GET",
        f"{COMPARISON}/marks",
        "The comparison of each box of a level of the graph",
        marks,
        wire.LevelMarks,
        queries.LevelQuery,
    ),
)
