"""Routes of watch conditions: the catalogue, and the recommended watchpoints."""

from __future__ import annotations

import asyncio
from typing import Final

from sonde.core.errors import UsageError
from sonde.core.operators.patterns import parse_all, selects
from sonde.debugger.initial_watchpoints import recommended_draft
from sonde.server.graph.index import GraphIndex
from sonde.server.http.endpoint import Call, Endpoints
from sonde.server.routes.runs import WATCHPOINTS
from sonde.server.routes.unmatched_patterns import watchpoint_list
from sonde.server.run import Run
from sonde.server.watchpoint_set import check_draft
from sonde.watch.conditions import (
    CATALOGUE,
    EXPRESSION_NAMES,
    PRESETS,
    Kind,
    Preset,
    Recommended,
    watchpoints_of,
)
from sonde.wire import queries
from sonde.wire.convert import copy_fields
from sonde.wire.watchpoints import (
    Catalogue,
    ConditionInfo,
    ParameterInfo,
    PresetInfo,
    Preview,
    WatchpointDraft,
    WatchpointList,
)

endpoints = Endpoints()


def _info(kind: Kind) -> ConditionInfo:
    parameters = tuple(copy_fields(each, ParameterInfo) for each in kind.parameters)
    return copy_fields(kind, ConditionInfo, parameters=parameters)


def _preset_info(preset: Preset) -> PresetInfo:
    return copy_fields(preset, PresetInfo)


_CATALOGUE: Final = Catalogue(
    tuple(map(_info, CATALOGUE.values())),
    tuple(EXPRESSION_NAMES),
    tuple(map(_preset_info, PRESETS.values())),
)


@endpoints.add("GET", "/conditions", "All watch conditions")
async def list_conditions(call: Call) -> Catalogue:
    return _CATALOGUE


@endpoints.add("POST", f"{WATCHPOINTS}/preview", "What a watchpoint would have hit")
async def preview(call: Call, query: queries.PreviewQuery, body: WatchpointDraft) -> Preview:
    """Evaluate a watchpoint that is not set on the statistics of the last recorded step."""
    check_draft(body)
    return await call.run.preview(query.rank, body)


@endpoints.add("POST", f"{WATCHPOINTS}/recommended", "Add the recommended watchpoints")
async def add_recommended(call: Call, query: queries.PresetQuery) -> WatchpointList:
    """Add the recommended watchpoints, or those of a preset, that match an op of this run's graph;
    all of them before the first step has ended. A watchpoint that exists is not added again."""
    call.run.need_watchable()
    index = await _graph(call.run)
    there = [(spec.name, spec.conditions) for spec in call.run.watchpoints]
    for recommended in watchpoints_of([query.preset]):
        draft = recommended_draft(recommended)
        if (draft.name, draft.conditions) in there:
            continue
        if index is None or await asyncio.to_thread(_has_target, index, recommended, draft):
            call.run.watchpoints.add(draft)
    call.run.watchpoints_changed()
    return await watchpoint_list(call.run)


async def _graph(run: Run) -> GraphIndex | None:
    """The graph that runs, or ran last; None before the first step has ended."""
    try:
        index = await run.graph(None, None)
    except UsageError:
        return None
    known = (graph.whole for rank in run.view().ranks for graph in rank.graphs)
    return index if index.whole or any(known) else None


def _has_target(index: GraphIndex, recommended: Recommended, draft: WatchpointDraft) -> bool:
    patterns = parse_all(draft.ops)
    return any(
        recommended.target in node.categories
        and selects(patterns, node.name, node.type, node.scope, is_leaf=node.kind != "op")
        for node in index.nodes
    )
