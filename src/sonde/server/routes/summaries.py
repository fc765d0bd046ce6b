"""Routes of the event files on the health page: TensorBoard logs."""

from __future__ import annotations

import asyncio

from sonde.server.http.endpoint import Call, Endpoints
from sonde.wire import health, queries, summaries

endpoints = Endpoints()
_LOG = "/logs/{number}"


@endpoints.add("GET", "/logs", "The directories with event files, and their tags")
async def logs(call: Call) -> summaries.SummaryLogs:
    return await asyncio.to_thread(call.context.logs.listing)


@endpoints.add("GET", f"{_LOG}/scalar", "A scalar of a log over its steps")
async def scalar_of_log(call: Call, query: queries.TagQuery) -> health.SignalCurve:
    return await asyncio.to_thread(call.context.logs.curve, call.number, query)


@endpoints.add("GET", f"{_LOG}/histograms", "The histograms of a tag over its steps")
async def histograms_of_log(call: Call, query: queries.TagQuery) -> summaries.TagHistograms:
    return await asyncio.to_thread(call.context.logs.histograms, call.number, query)


@endpoints.add("GET", f"{_LOG}/picture", "One picture of a tag")
async def picture_of_log(call: Call, query: queries.PictureQuery) -> summaries.TagPicture:
    return await asyncio.to_thread(call.context.logs.picture, call.number, query)
