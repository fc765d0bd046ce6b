"""Routes of runs: state, control, watchpoints, hits and losses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from sonde.server.graph.search import PageWindow
from sonde.server.hit_store import HitFilter, page_of
from sonde.server.http.endpoint import Call, Endpoint
from sonde.server.routes import unmatched_patterns
from sonde.server.run import Run, chosen_rank
from sonde.server.watchpoint_set import check_draft
from sonde.wire import queries
from sonde.wire.api import (
    ControlRequest,
    HitPage,
    KeepRequest,
    LossCurve,
    RunList,
    RunView,
    WatchpointAnswer,
    WatchpointDraft,
    WatchpointFile,
    WatchpointList,
)
from sonde.wire.shapes import Hit


async def list_runs(call: Call) -> RunList:
    context = call.context
    views = tuple(run.view() for run in context.runs)
    return RunList(views, context.rank_port, context.has_token)


async def show_run(call: Call) -> RunView:
    return call.run.view()


async def forget_run(call: Call) -> None:
    run = call.run
    call.context.runs.forget(run.id)
    call.context.broker.announce(run.id, run.view().revision + 1, "status")


async def control(call: Call) -> RunView:
    await call.run.control(call.body)
    return call.run.view()


async def keep(call: Call) -> None:
    await call.run.keep(call.body)


async def recheck(call: Call) -> RunView:
    await call.run.recheck(call.query.wait_seconds)
    return call.run.view()


async def list_watchpoints(call: Call) -> WatchpointList:
    return WatchpointList(call.run.watchpoints.all)


async def add_watchpoint(call: Call) -> WatchpointAnswer:
    warning = await _check(call)
    spec = call.run.watchpoints.add(call.body)
    call.run.watchpoints_changed()
    return WatchpointAnswer(**msgspec.structs.asdict(spec), warning=warning)


async def change_watchpoint(call: Call) -> WatchpointAnswer:
    call.run.watchpoints.find(call.number)
    warning = await _check(call)
    spec = call.run.watchpoints.change(call.number, call.body)
    call.run.watchpoints_changed()
    return WatchpointAnswer(**msgspec.structs.asdict(spec), warning=warning)


async def _check(call: Call) -> str:
    """Check the draft; returns a warning, or an empty text. UsageError if it is invalid."""
    return await unmatched_patterns.warning(
        call.run, check_draft(call.body), strict=call.query.must_match
    )


async def remove_watchpoint(call: Call) -> None:
    call.run.watchpoints.remove(call.number)
    call.run.watchpoints_changed()


async def save_watchpoints(call: Call) -> WatchpointFile:
    return call.run.watchpoints.save()


async def load_watchpoints(call: Call) -> WatchpointList:
    call.run.watchpoints.load(call.body)
    call.run.watchpoints_changed()
    return WatchpointList(call.run.watchpoints.all)


async def list_hits(call: Call) -> HitPage:
    query: queries.HitsQuery = call.query
    chosen_rank(call.run, query.rank)
    in_graph = None if query.graph is None else await _in_graph(call.run, query.rank, query.graph)
    wanted = HitFilter(query.rank, query.watchpoint, query.step, query.op, query.verdict, in_graph)
    window = PageWindow(query.offset, query.limit)
    hits, dropped = call.run.hits.in_order(), call.run.hits.dropped(query.rank)
    return await asyncio.to_thread(page_of, hits, wanted, window, dropped)


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


async def losses(call: Call) -> LossCurve:
    return call.run.loss(call.query.rank, call.query.after)


RUN = "/runs/{run}"
WATCHPOINTS = f"{RUN}/watchpoints"

ENDPOINTS = (
    Endpoint("GET", "/runs", "All runs", list_runs, RunList),
    Endpoint("GET", RUN, "One run", show_run, RunView),
    Endpoint("DELETE", RUN, "Forget a run that ended", forget_run, None),
    Endpoint(
        "POST", f"{RUN}/control", "Control the training", control, RunView, body=ControlRequest
    ),
    Endpoint("POST", f"{RUN}/keep", "Keep values of ops", keep, None, body=KeepRequest),
    Endpoint(
        "POST",
        f"{RUN}/recheck",
        "Check the watchpoints in all steps of a dump, or on the values a training has now",
        recheck,
        RunView,
        queries.RecheckQuery,
    ),
    Endpoint("GET", WATCHPOINTS, "All watchpoints", list_watchpoints, WatchpointList),
    Endpoint(
        "POST",
        WATCHPOINTS,
        "Add a watchpoint",
        add_watchpoint,
        WatchpointAnswer,
        queries.WatchpointQuery,
        WatchpointDraft,
    ),
    Endpoint(
        "GET", f"{WATCHPOINTS}/file", "The watchpoints as a file", save_watchpoints, WatchpointFile
    ),
    Endpoint(
        "PUT",
        f"{WATCHPOINTS}/file",
        "Replace all watchpoints by those of a file",
        load_watchpoints,
        WatchpointList,
        body=WatchpointFile,
    ),
    Endpoint(
        "PUT",
        f"{WATCHPOINTS}/{{number}}",
        "Change a watchpoint",
        change_watchpoint,
        WatchpointAnswer,
        queries.WatchpointQuery,
        WatchpointDraft,
    ),
    Endpoint("DELETE", f"{WATCHPOINTS}/{{number}}", "Remove a watchpoint", remove_watchpoint, None),
    Endpoint(
        "GET", f"{RUN}/hits", "Hits in execution order", list_hits, HitPage, queries.HitsQuery
    ),
    Endpoint("GET", f"{RUN}/loss", "The losses so far", losses, LossCurve, queries.LossQuery),
)
