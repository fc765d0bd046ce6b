"""Routes of graphs: levels, the tree, searches, ops and their source code."""

from __future__ import annotations

import asyncio

from sonde.server.graph.code import read_code
from sonde.server.graph.initial_view import opening
from sonde.server.graph.levels import Marks, level
from sonde.server.graph.search import PageWindow, op_view, search, sources, tree
from sonde.server.http.endpoint import Call, Endpoints
from sonde.server.routes.runs import RUN
from sonde.server.run import chosen_rank
from sonde.wire import queries
from sonde.wire.api import CodeText, Level, NodePage, Opening, OpView, SourceList, TreePage

endpoints = Endpoints()


@endpoints.add("GET", f"{RUN}/graph/level", "The boxes directly inside a scope")
async def graph_level(call: Call, query: queries.LevelQuery) -> Level:
    index = await call.run.graph(query.rank, query.graph)
    rank = chosen_rank(call.run, query.rank)
    marks = Marks(call.run.hits.counts(rank), call.run.hits.origins(rank))
    return await asyncio.to_thread(level, index, query.scope, query.group, marks)


@endpoints.add("GET", f"{RUN}/graph/opening", "The scopes to open at first")
async def graph_opening(call: Call, query: queries.OpeningQuery) -> Opening:
    index = await call.run.graph(query.rank, query.graph)
    return await asyncio.to_thread(opening, index, query.boxes)


@endpoints.add("GET", f"{RUN}/graph/tree", "The scope tree")
async def graph_tree(call: Call, query: queries.TreeQuery) -> TreePage:
    index = await call.run.graph(query.rank, query.graph)
    counts = call.run.hits.counts(chosen_rank(call.run, query.rank))
    return tree(index, query.scope, PageWindow(query.offset, query.limit), counts)


@endpoints.add("GET", f"{RUN}/nodes", "Find ops")
async def find_nodes(call: Call, query: queries.NodesQuery) -> NodePage:
    index = await call.run.graph(query.rank, query.graph)
    counts = call.run.hits.counts(chosen_rank(call.run, query.rank))
    return await asyncio.to_thread(search, index, query, counts)


@endpoints.add("GET", f"{RUN}/op", "One op")
async def show_op(call: Call, query: queries.OpQuery) -> OpView:
    index = await call.run.graph(query.rank, query.graph)
    rank = chosen_rank(call.run, query.rank)
    own = (hit for hit in call.run.hits.in_order() if hit.rank == rank)
    return op_view(index, query.name, own)


@endpoints.add("GET", f"{RUN}/sources", "Lines of code")
async def list_sources(call: Call, query: queries.SourcesQuery) -> SourceList:
    index = await call.run.graph(query.rank, query.graph)
    return await asyncio.to_thread(sources, index, query.query)


@endpoints.add("GET", f"{RUN}/code", "Source code around a line")
async def show_code(call: Call, query: queries.CodeQuery) -> CodeText:
    index = await call.run.graph(query.rank, query.graph)
    return await asyncio.to_thread(read_code, index, query.file, query.line, query.around)
