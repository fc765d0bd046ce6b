"""Routes of a diagnosis: where a graph has what the findings name, and the pages of the rules."""

from __future__ import annotations

import asyncio

from sonde.core.errors import UsageError
from sonde.diagnosis.pages import rule_page
from sonde.server.findings import finding_places
from sonde.server.http.endpoint import Call, Endpoints
from sonde.server.routes.runs import RUN
from sonde.wire import api, queries

endpoints = Endpoints()


@endpoints.add("GET", f"{RUN}/graph/findings", "Where a graph has what the findings name")
async def graph_findings(call: Call, query: queries.GraphQuery) -> api.FindingPlaces:
    index = await call.run.graph(query.rank, query.graph)
    shown = await asyncio.to_thread(index.seen_as, query.view)
    return api.FindingPlaces(await asyncio.to_thread(finding_places, shown, call.run.diagnosis))


@endpoints.add("GET", "/rule", "The documentation of a rule")
async def show_rule(call: Call, query: queries.RuleQuery) -> api.RulePage:
    text = await asyncio.to_thread(rule_page, query.kind)
    if text is None:
        raise UsageError(f"no documentation of the rule {query.kind[:100]!r}", slug="no-such-rule")
    return api.RulePage(query.kind, text)
