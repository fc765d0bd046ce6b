"""Routes of runs: state, control, watchpoints, hits and losses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from sonde.server.graph.search import PageWindow
from sonde.server.hit_store import HitFilter, page_of
from sonde.server.http.endpoint import Call, Endpoints
from sonde.server.routes import unmatched_patterns
from sonde.server.run import Run, chosen_rank
from sonde.server.watchpoint_set import check_draft
from sonde.wire import api, queries
from sonde.wire.shapes import Hit
from sonde.wire.watchpoints import WatchpointAnswer, WatchpointDraft, WatchpointFile, WatchpointList

RUN = "/runs/{run}"
WATCHPOINTS = f"{RUN}/watchpoints"
endpoints = Endpoints()


@endpoints.add("GET", "/runs", "All runs")
async def list_runs(call: Call) -> api.RunList:
    context = call.context
    views = [await unmatched_patterns.run_view(run) for run in context.runs]
    return api.RunList(tuple(views), context.rank_port, context.fingerprint)


@endpoints.add("GET", RUN, "One run")
async def show_run(call: Call) -> api.RunView:
    return await unmatched_patterns.run_view(call.run)


@endpoints.add("DELETE", RUN, "Forget a run that ended")
async def forget_run(call: Call) -> None:
    run = call.run
    call.context.runs.forget(run.id)
    call.context.broker.announce(run.id, run.view().revision + 1, "status")


@endpoints.add("POST", f"{RUN}/control", "Control the training")
async def control(call: Call, body: api.ControlRequest) -> api.RunView:
    await call.run.control(body)
    return await unmatched_patterns.run_view(call.run)


@endpoints.add("POST", f"{RUN}/keep", "Keep values of ops")
async def keep(call: Call, body: api.KeepRequest) -> None:
    await call.run.keep(body)


@endpoints.add("POST", f"{RUN}/record", "Record statistics of an op in every step")
async def record(call: Call, body: api.RecordRequest) -> None:
    await call.run.record(body)


@endpoints.add("POST", f"{RUN}/measure-speed", "Run one coming step unobserved")
async def measure_speed(call: Call) -> api.RunView:
    call.run.measure_speed()
    return await unmatched_patterns.run_view(call.run)


@endpoints.add(
    "POST",
    f"{RUN}/recheck",
    "Check the watchpoints in all steps of a dump, or on the values a training has now",
)
async def recheck(call: Call, query: queries.RecheckQuery) -> api.RunView:
    await call.run.recheck(query.wait_seconds)
    return await unmatched_patterns.run_view(call.run)


@endpoints.add("DELETE", f"{RUN}/recheck", "Stop the check of a dump")
async def stop_recheck(call: Call) -> None:
    call.run.stop_recheck()


@endpoints.add("GET", WATCHPOINTS, "All watchpoints")
async def list_watchpoints(call: Call) -> WatchpointList:
    return await unmatched_patterns.watchpoint_list(call.run)


@endpoints.add("POST", WATCHPOINTS, "Add a watchpoint")
async def add_watchpoint(
    call: Call, query: queries.WatchpointQuery, body: WatchpointDraft
) -> WatchpointAnswer:
    call.run.need_watchable()
    warning = await _warning(call.run, query, body)
    spec = call.run.watchpoints.add(body)
    call.run.watchpoints_changed()
    return WatchpointAnswer(**msgspec.structs.asdict(spec), warning=warning)


@endpoints.add("GET", f"{WATCHPOINTS}/file", "The watchpoints as a file")
async def save_watchpoints(call: Call) -> WatchpointFile:
    return call.run.watchpoints.save()


@endpoints.add("PUT", f"{WATCHPOINTS}/file", "Replace all watchpoints by those of a file")
async def load_watchpoints(call: Call, body: WatchpointFile) -> WatchpointList:
    call.run.need_watchable()
    call.run.watchpoints.load(body)
    call.run.watchpoints_changed()
    return await unmatched_patterns.watchpoint_list(call.run)


@endpoints.add("PUT", f"{WATCHPOINTS}/{{number}}", "Change a watchpoint")
async def change_watchpoint(
    call: Call, query: queries.WatchpointQuery, body: WatchpointDraft
) -> WatchpointAnswer:
    call.run.need_watchable()
    call.run.watchpoints.find(call.number)
    warning = await _warning(call.run, query, body)
    spec = call.run.watchpoints.change(call.number, body)
    call.run.watchpoints_changed()
    return WatchpointAnswer(**msgspec.structs.asdict(spec), warning=warning)


async def _warning(run: Run, query: queries.WatchpointQuery, draft: WatchpointDraft) -> str:
    """Check a draft: UsageError if it is invalid; a warning if its patterns match no op."""
    return await unmatched_patterns.warning(run, check_draft(draft), strict=query.must_match)


@endpoints.add("DELETE", f"{WATCHPOINTS}/{{number}}", "Remove a watchpoint")
async def remove_watchpoint(call: Call) -> None:
    call.run.watchpoints.remove(call.number)
    call.run.watchpoints_changed()


@endpoints.add("GET", f"{RUN}/hits", "Hits in execution order")
async def list_hits(call: Call, query: queries.HitsQuery) -> api.HitPage:
    chosen_rank(call.run, query.rank)
    in_graph = None if query.graph is None else await _in_graph(call.run, query.rank, query.graph)
    wanted = HitFilter(
        query.rank,
        query.watchpoint,
        query.step,
        query.op,
        query.verdict,
        in_graph,
        query.origin,
        query.condition,
        query.phase,
        query.is_harmless,
    )
    window = PageWindow(query.offset, query.limit)
    hits, dropped = call.run.hits.in_order(), call.run.hits.dropped(query.rank)
    return await asyncio.to_thread(page_of, hits, wanted, window, dropped)


@endpoints.add("GET", f"{RUN}/causes", "Hits by cause")
async def list_causes(call: Call, query: queries.CausesQuery) -> api.CauseList:
    chosen_rank(call.run, query.rank)
    return call.run.hits.causes.list(query.rank)


async def _in_graph(run: Run, rank: int | None, graph: int) -> Callable[[Hit], bool]:
    """Whether a hit is of an op of the graph, in a step that ran it.

    Where it is not known which graph a step ran, or it ran several, the op's name decides.
    """
    ops = {
        each.rank: (await run.graph(each.rank, graph)).numbers
        for each in run.view().ranks
        if rank in (None, each.rank) and any(one.id == graph for one in each.graphs)
    }
    if not ops:
        await run.graph(rank, graph)  # Raises an error that lists the graphs.

    def is_in(hit: Hit) -> bool:
        names = ops.get(hit.rank)
        ran = run.graph_of(hit.rank, hit.step)
        return names is not None and hit.op in names and ran in (None, graph)

    return is_in


@endpoints.add("GET", f"{RUN}/loss", "The losses so far")
async def losses(call: Call, query: queries.LossQuery) -> api.LossCurve:
    return await call.run.loss(query.rank, query.after)
