"""Routes of tensors: statistics, tables, heat maps, comparisons, files, curves."""

from __future__ import annotations

import asyncio

from sonde.debugger.values import answers
from sonde.server.http.endpoint import Call, Endpoint
from sonde.server.routes.runs import RUN
from sonde.server.run import NpyFile
from sonde.wire import queries
from sonde.wire.api import StatisticCurve
from sonde.wire.questions import (
    AnyAnswer,
    AskCompare,
    AskHeat,
    AskOp,
    AskSummary,
    AskTable,
    Compared,
    Heat,
    OpTensors,
    Summary,
    Table,
)
from sonde.wire.shapes import TensorName


async def op_tensors(call: Call) -> AnyAnswer:
    query: queries.OpTensorsQuery = call.query
    return await call.run.ask(query.rank, TensorName(query.name, step=query.step), AskOp())


async def summary(call: Call) -> AnyAnswer:
    query: queries.SummaryQuery = call.query
    return await call.run.ask(query.rank, query.tensor, AskSummary(query.bins))


async def table(call: Call) -> AnyAnswer:
    query: queries.TableQuery = call.query
    return await call.run.ask(query.rank, query.tensor, AskTable(query.index))


async def heat(call: Call) -> AnyAnswer:
    query: queries.HeatQuery = call.query
    question = AskHeat(query.index, query.rows, query.columns)
    return await call.run.ask(query.rank, query.tensor, question)


async def compare(call: Call) -> AnyAnswer:
    """Compare two tensors: in the rank if both are there, else here, after fetching both."""
    query: queries.CompareQuery = call.query
    other_run = call.run if query.with_run is None else call.context.runs.find(query.with_run)
    other_rank = query.rank if query.with_rank is None else query.with_rank
    if other_run is call.run and other_rank == query.rank:
        question = AskCompare(query.other, query.index, query.tolerance)
        return await call.run.ask(query.rank, query.tensor, question)
    a, b = await asyncio.gather(
        call.run.values(query.rank, query.tensor), other_run.values(other_rank, query.other)
    )
    return await asyncio.to_thread(answers.compare, a, b, query.index, query.tolerance)


async def file(call: Call) -> NpyFile:
    return await call.run.file(call.query.rank, call.query.tensor)


async def curve(call: Call) -> StatisticCurve:
    return await call.run.curve(call.query.rank, call.query.tensor)


TENSOR = f"{RUN}/tensor"

ENDPOINTS = (
    Endpoint(
        "GET",
        f"{RUN}/op/tensors",
        "Inputs and outputs of an op",
        op_tensors,
        OpTensors,
        queries.OpTensorsQuery,
    ),
    Endpoint(
        "GET",
        f"{TENSOR}/summary",
        "Statistics and histogram",
        summary,
        Summary,
        queries.SummaryQuery,
    ),
    Endpoint("GET", f"{TENSOR}/table", "Elements", table, Table, queries.TableQuery),
    Endpoint("GET", f"{TENSOR}/heat", "A heat map", heat, Heat, queries.HeatQuery),
    Endpoint(
        "GET",
        f"{TENSOR}/compare",
        "The difference from another tensor",
        compare,
        Compared,
        queries.CompareQuery,
    ),
    Endpoint(
        "GET",
        f"{TENSOR}/file",
        "The whole tensor as an .npy file",
        file,
        NpyFile,
        queries.TensorQuery,
    ),
    Endpoint(
        "GET",
        f"{TENSOR}/curve",
        "Statistics over steps",
        curve,
        StatisticCurve,
        queries.TensorQuery,
    ),
)
