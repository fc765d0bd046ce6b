"""Routes of tensors: statistics, tables, heat maps, comparisons, files, curves."""

from __future__ import annotations

import asyncio

from sonde.debugger.values import answers
from sonde.server.http.endpoint import Call, Endpoints
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

TENSOR = f"{RUN}/tensor"
endpoints = Endpoints()


@endpoints.add("GET", f"{RUN}/op/tensors", "Inputs and outputs of an op", answer=OpTensors)
async def op_tensors(call: Call, query: queries.OpTensorsQuery) -> AnyAnswer:
    return await call.run.ask(query.rank, TensorName(query.name, step=query.step), AskOp())


@endpoints.add("GET", f"{TENSOR}/summary", "Statistics and histogram", answer=Summary)
async def summary(call: Call, query: queries.SummaryQuery) -> AnyAnswer:
    return await call.run.ask(query.rank, query.tensor, AskSummary(query.bins, query.index))


@endpoints.add("GET", f"{TENSOR}/table", "Elements", answer=Table)
async def table(call: Call, query: queries.TableQuery) -> AnyAnswer:
    return await call.run.ask(query.rank, query.tensor, AskTable(query.index))


@endpoints.add("GET", f"{TENSOR}/heat", "A heat map", answer=Heat)
async def heat(call: Call, query: queries.HeatQuery) -> AnyAnswer:
    question = AskHeat(query.index, query.rows, query.columns, query.by)
    return await call.run.ask(query.rank, query.tensor, question)


@endpoints.add("GET", f"{TENSOR}/compare", "The difference from another tensor", answer=Compared)
async def compare(call: Call, query: queries.CompareQuery) -> AnyAnswer:
    """Compare two tensors: in the rank if both are there, else here, after fetching both."""
    other_run = call.run if query.with_run is None else call.context.runs.find(query.with_run)
    other_rank = query.rank if query.with_rank is None else query.with_rank
    if other_run is call.run and other_rank == query.rank:
        question = AskCompare(query.other, query.index, query.tolerance)
        return await call.run.ask(query.rank, query.tensor, question)
    a, b = await asyncio.gather(
        call.run.values(query.rank, query.tensor), other_run.values(other_rank, query.other)
    )
    return await asyncio.to_thread(answers.compare, a, b, query.index, query.tolerance)


@endpoints.add("GET", f"{TENSOR}/file", "The whole tensor as an .npy file")
async def file(call: Call, query: queries.TensorQuery) -> NpyFile:
    return await call.run.file(query.rank, query.tensor)


@endpoints.add("GET", f"{TENSOR}/curve", "Statistics over steps")
async def curve(call: Call, query: queries.TensorQuery) -> StatisticCurve:
    return await call.run.curve(query.rank, query.tensor)
