"""Routes of graphs: levels, the tree, searches, ops and their source code."""

from __future__ import annotations

import asyncio

from sonde.server.findings import findings_by_part
from sonde.server.graph.code import read_code
from sonde.server.graph.initial_view import opening, opening_of_model
from sonde.server.graph.level_values import level_values
from sonde.server.graph.levels import Marks, level
from sonde.server.graph.op_times import op_times
from sonde.server.graph.scope_view import scope_view
from sonde.server.graph.search import PageWindow, op_view, scopes, search, sources, tree
from sonde.server.http.endpoint import Call, Endpoints
from sonde.server.routes.runs import RUN
from sonde.server.run import chosen_rank
from sonde.wire import queries
from sonde.wire.graphs import (
    CodeText,
    Level,
    LevelValues,
    NodePage,
    Opening,
    OpView,
    ScopeList,
    ScopeView,
    SourceList,
    TreePage,
)

endpoints = Endpoints()


@endpoints.add("GET", f"{RUN}/graph/level", "The boxes directly inside a scope")
async def graph_level(call: Call, query: queries.LevelQuery) -> Level:
    index = await call.run.graph(query.rank, query.graph)
    rank = chosen_rank(call.run, query.rank)
    shown = await asyncio.to_thread(index.seen_as, query.view)
    findings = await asyncio.to_thread(findings_by_part, shown, call.run.diagnosis)
    marks = Marks(call.run.hits.counts(rank), call.run.hits.origins(rank), findings)
    return await asyncio.to_thread(level, shown, query.scope, query.group, marks)


@endpoints.add("GET", f"{RUN}/graph/opening", "The scopes to open at first")
async def graph_opening(call: Call, query: queries.OpeningQuery) -> Opening:
    index = await call.run.graph(query.rank, query.graph)
    shown = await asyncio.to_thread(index.seen_as, query.view)
    choose = opening_of_model if query.view == "model" else opening
    return await asyncio.to_thread(choose, shown, query.boxes)


@endpoints.add("GET", f"{RUN}/graph/tree", "The scope tree")
async def graph_tree(call: Call, query: queries.TreeQuery) -> TreePage:
    index = await call.run.graph(query.rank, query.graph)
    counts = call.run.hits.counts(chosen_rank(call.run, query.rank))
    shown = await asyncio.to_thread(index.seen_as, query.view)
    return tree(shown, query.scope, PageWindow(query.offset, query.limit), counts)


@endpoints.add("GET", f"{RUN}/graph/scope", "One scope")
async def show_scope(call: Call, query: queries.ScopeQuery) -> ScopeView:
    index = await call.run.graph(query.rank, query.graph)
    counts = call.run.hits.counts(chosen_rank(call.run, query.rank))
    shown = await asyncio.to_thread(index.seen_as, query.view)
    return await asyncio.to_thread(scope_view, shown, query.scope, counts)


@endpoints.add("GET", f"{RUN}/graph/scopes", "Find scopes")
async def find_scopes(call: Call, query: queries.ScopesQuery) -> ScopeList:
    index = await call.run.graph(query.rank, query.graph)
    shown = await asyncio.to_thread(index.seen_as, query.view)
    return await asyncio.to_thread(scopes, shown, query.query, query.limit)


@endpoints.add("GET", f"{RUN}/graph/values", "A statistic of each box of a level")
async def graph_values(call: Call, query: queries.ValuesQuery) -> LevelValues:
    index = await call.run.graph(query.rank, query.graph)
    if query.statistic == "time":
        found = await asyncio.to_thread(op_times, index, call.context.profile)
    else:
        found = await call.run.op_values(query.rank, query.graph, query.step, query.statistic)
    shown = await asyncio.to_thread(index.seen_as, query.view)
    return await asyncio.to_thread(level_values, shown, query.scope, query.group, found)


@endpoints.add("GET", f"{RUN}/nodes", "Find ops")
async def find_nodes(call: Call, query: queries.NodesQuery) -> NodePage:
    index = await call.run.graph(query.rank, query.graph)
    counts = call.run.hits.counts(chosen_rank(call.run, query.rank))
    return await asyncio.to_thread(search, index, query, counts)


@endpoints.add("GET", f"{RUN}/op", "One op")
async def show_op(call: Call, query: queries.OpQuery) -> OpView:
    index = await call.run.graph(query.rank, query.graph)
    counts = call.run.hits.counts(chosen_rank(call.run, query.rank))
    return await asyncio.to_thread(op_view, index, query.name, counts[query.name], query.view)


@endpoints.add("GET", f"{RUN}/sources", "Lines of code")
async def list_sources(call: Call, query: queries.SourcesQuery) -> SourceList:
    index = await call.run.graph(query.rank, query.graph)
    return await asyncio.to_thread(sources, index, query.query)


@endpoints.add("GET", f"{RUN}/code", "Source code around a line")
async def show_code(call: Call, query: queries.CodeQuery) -> CodeText:
    index = await call.run.graph(query.rank, query.graph)
    return await asyncio.to_thread(read_code, index, query.file, query.line, query.around)
