"""Routes of the comparison of two dumps: verdict, pairs, unpaired ops, marks in the graph."""

from __future__ import annotations

import asyncio

from sonde.core.errors import UsageError
from sonde.server.comparison.background import BackgroundComparison
from sonde.server.comparison.views import ComparisonPages
from sonde.server.dumps.run import DumpRun
from sonde.server.http.endpoint import Call, Endpoints
from sonde.server.routes.runs import RUN
from sonde.server.run import chosen_rank
from sonde.wire import comparison as wire
from sonde.wire import queries

COMPARISON = f"{RUN}/comparison"
endpoints = Endpoints()


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


@endpoints.add("GET", COMPARISON, "The comparison with the other dump")
async def show(call: Call) -> wire.ComparisonView:
    return _of(call).view(call.run.id)


@endpoints.add("GET", f"{COMPARISON}/pairs", "Pairs of ops, and how their tensors differ")
async def pairs(call: Call, query: queries.PairsQuery) -> wire.PairPage:
    pages, side = _pages(call)
    return await asyncio.to_thread(pages.pairs, side, query)


@endpoints.add("GET", f"{COMPARISON}/unpaired", "Ops without a counterpart")
async def unpaired(call: Call, query: queries.UnpairedQuery) -> wire.UnpairedPage:
    pages, _ = _pages(call)
    return await asyncio.to_thread(pages.unpaired, query)


@endpoints.add("GET", f"{COMPARISON}/marks", "The comparison of each box of a level of the graph")
async def marks(call: Call, query: queries.LevelQuery) -> wire.LevelMarks:
    pages, side = _pages(call)
    index = await call.run.graph(query.rank, query.graph)
    rank = chosen_rank(call.run, query.rank)
    shown = await asyncio.to_thread(index.seen_as, query.view)
    return await asyncio.to_thread(pages.marks, side, rank, shown, query.scope, query.group)
