"""Routes of the health page: signals over steps, and the map of layers by steps."""

from __future__ import annotations

import asyncio

from sonde.server.health import source
from sonde.server.http.endpoint import Call, Endpoints
from sonde.server.routes.runs import RUN
from sonde.wire import health, queries

endpoints = Endpoints()


@endpoints.add("GET", f"{RUN}/health", "Signals over steps, and which maps of layers there are")
async def health_of_run(call: Call, query: queries.HealthQuery) -> health.HealthView:
    trends = await call.run.trends(query.rank)
    return await asyncio.to_thread(source.health_view, trends, query)


@endpoints.add("GET", f"{RUN}/layers", "A part of the map of layers by steps")
async def layers_of_run(call: Call, query: queries.LayersQuery) -> health.LayerCells:
    trends = await call.run.trends(query.rank)
    other = None
    if query.with_run is not None:
        rank = query.rank if query.with_rank is None else query.with_rank
        other = await call.context.runs.find(query.with_run).trends(rank)
    return await asyncio.to_thread(source.layer_cells, trends, query, other)


@endpoints.add(
    "GET", f"{RUN}/layers/tensors", "The tensors that a cell of the map is computed from"
)
async def tensors_of_cell(call: Call, query: queries.CellQuery) -> health.LayerTensors:
    trends = await call.run.trends(query.rank)
    return await asyncio.to_thread(source.layer_tensors, trends, query)
