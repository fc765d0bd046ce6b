"""Routes of graphs: levels, the tree, searches, ops and their source code."""

from __future__ import annotations

import asyncio

from sonde.server.graph.code import read_code
from sonde.server.graph.initial_view import opening
from sonde.server.graph.levels import Marks, level
from sonde.server.graph.search import PageWindow, Query, op_view, search, sources, tree
from sonde.server.http.endpoint import Call, Endpoint
from sonde.server.routes.runs import RUN
from sonde.server.run import chosen_rank
from sonde.wire import queries
from sonde.wire.api import CodeText, Level, NodePage, Opening, OpView, SourceList, TreePage


async def graph_level(call: Call) -> Level:
    query: queries.LevelQuery = call.query
    index = await call.run.graph(query.rank, query.graph)
    rank = chosen_rank(call.run, query.rank)
    marks = Marks(call.run.hits.counts(rank), call.run.hits.origins(rank))
    return await asyncio.to_thread(level, index, query.scope, query.group, marks)


async def graph_opening(call: Call) -> Opening:
    query: queries.OpeningQuery = call.query
    index = await call.run.graph(query.rank, query.graph)
    return await asyncio.to_thread(opening, index, query.boxes)


async def graph_tree(call: Call) -> TreePage:
    query: queries.TreeQuery = call.query
    index = await call.run.graph(query.rank, query.graph)
    counts = call.run.hits.counts(chosen_rank(call.run, query.rank))
    return tree(index, query.scope, PageWindow(query.offset, query.limit), counts)


async def find_nodes(call: Call) -> NodePage:
    query: queries.NodesQuery = call.query
    index = await call.run.graph(query.rank, query.graph)
    wanted = Query(query.query, query.category, query.phase, query.file, query.line, query.hits)
    window = PageWindow(query.offset, query.limit)
    counts = call.run.hits.counts(chosen_rank(call.run, query.rank))
    return await asyncio.to_thread(search, index, wanted, window, counts)


async def show_op(call: Call) -> OpView:
    index = await call.run.graph(call.query.rank, call.query.graph)
    rank = chosen_rank(call.run, call.query.rank)
    own = (hit for hit in call.run.hits.in_order() if hit.rank == rank)
    return op_view(index, call.query.name, own)


async def list_sources(call: Call) -> SourceList:
    index = await call.run.graph(call.query.rank, call.query.graph)
    return await asyncio.to_thread(sources, index, call.query.query)


async def show_code(call: Call) -> CodeText:
    query: queries.CodeQuery = call.query
    index = await call.run.graph(query.rank, query.graph)
    return await asyncio.to_thread(read_code, index, query.file, query.line, query.around)


ENDPOINTS = (
    Endpoint(
        "GET",
        f"{RUN}/graph/level",
        "The boxes directly inside a scope",
        graph_level,
        Level,
        queries.LevelQuery,
    ),
    Endpoint(
        "GET",
        f"{RUN}/graph/opening",
        "The scopes to open at first",
        graph_opening,
        Opening,
        queries.OpeningQuery,
    ),
    Endpoint("GET", f"{RUN}/graph/tree", "The scope tree", graph_tree, TreePage, queries.TreeQuery),
    Endpoint("GET", f"{RUN}/nodes", "Find ops", find_nodes, NodePage, queries.NodesQuery),
    Endpoint("GET", f"{RUN}/op", "One op", show_op, OpView, queries.OpQuery),
    Endpoint(
        "GET", f"{RUN}/sources", "Lines of code", list_sources, SourceList, queries.SourcesQuery
    ),
    Endpoint(
        "GET",
        f"{RUN}/code",
        "Source code around a line",
        show_code,
        CodeText,
        queries.CodeQuery,
    ),
)
