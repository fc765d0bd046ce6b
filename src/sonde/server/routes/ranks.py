"""Routes of all ranks of a run together: the table of checks, one tensor side by side."""

from __future__ import annotations

import asyncio
from typing import Final

from sonde.core.errors import UsageError
from sonde.debugger.values.answers import Values
from sonde.ranks.job import RankJob
from sonde.server.dumps.rank_check import judged
from sonde.server.dumps.run import DumpRun
from sonde.server.http.endpoint import Call, Endpoints
from sonde.server.live.run import LiveRun
from sonde.server.rank_views import Merge, placed_merge, ranks_view, tensor_of_ranks
from sonde.server.routes.runs import RUN
from sonde.server.run import Run
from sonde.wire import queries
from sonde.wire import ranks as wire
from sonde.wire.shapes import TensorName

RANKS = f"{RUN}/ranks"
_MOST_BYTES: Final = 1 << 30
_AT_ONCE: Final = 8
endpoints = Endpoints()


@endpoints.add("GET", RANKS, "The comparison of all ranks")
async def show_ranks(call: Call) -> wire.RanksView:
    run = call.run
    if isinstance(run, LiveRun):
        comparison = run.messages.comparison
        return ranks_view(comparison.job, is_compared=comparison.is_started)
    return ranks_view(await _judged(run), is_compared=True)


@endpoints.add("GET", f"{RANKS}/tensor", "One tensor on all ranks, side by side and merged")
async def rank_tensor(call: Call, query: queries.RankTensorQuery) -> wire.TensorOfRanks:
    run = call.run
    values, missing = await _values(run, query.tensor)
    merge: Merge | None
    if query.merge is not None:
        merge = Merge(query.merge, query.dim)
    else:
        job = run.messages.comparison.job if isinstance(run, LiveRun) else None
        merge = placed_merge(job, query.op)
    cells = max(min(query.cells, 512), 1)
    return await asyncio.to_thread(
        tensor_of_ranks, query.tensor, values, missing, merge, cells=cells
    )


async def _judged(run: Run) -> RankJob:
    if not isinstance(run, DumpRun):
        raise UsageError(f"run {run.id!r} has no ranks to compare", slug="one-rank")
    return await asyncio.to_thread(judged, run.dump.path)


async def _values(run: Run, name: TensorName) -> tuple[dict[int, Values], dict[int, str]]:
    """The values of each rank, or why a rank has none."""
    found: dict[int, Values] = {}
    missing: dict[int, str] = {}
    limit = asyncio.Semaphore(_AT_ONCE)
    total = 0

    async def fetch(rank: int) -> None:
        nonlocal total
        async with limit:
            try:
                if total > _MOST_BYTES:
                    raise UsageError("the tensor is too large for all ranks at once", slug="size")
                values = await run.values(rank, name)
            except UsageError as error:
                missing[rank] = error.message
            else:
                found[rank] = values
                total += values.array.nbytes

    await asyncio.gather(*(fetch(each.rank) for each in run.view().ranks))
    return found, missing
