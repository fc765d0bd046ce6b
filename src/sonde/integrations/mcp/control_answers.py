"""Answers of the tool that controls a training under the debugger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sonde.core.text.number_text import count_text
from sonde.integrations.mcp.answer import NextCall, ToolAnswer
from sonde.integrations.mcp.findings import Facts, place_text, without_nothing


def control_answer(document: Any, root: Path) -> ToolAnswer:
    """The state of the runs, or the hits of watchpoints."""
    if "hits" in document:
        return _hits_answer(document, root)
    if "runs" not in document and "ranks" not in document:
        hits = NextCall(tool="control", arguments={"action": "hits"}, why="what it has found")
        return ToolAnswer(verdict="done", facts={"answer": document}, next=[hits])
    runs = [_run_facts(each, root) for each in document.get("runs", [document])]
    if not runs:
        return ToolAnswer(verdict="no training is connected", facts={})
    states = ", ".join(f"rank {each['rank']} {each['state']}" for each in runs[-1]["ranks"])
    wrong = runs[-1].get("wrong")
    hits = NextCall(tool="control", arguments={"action": "hits"}, why="the hits of watchpoints")
    return ToolAnswer(
        verdict=wrong or f"{runs[-1]['id']}: {states}", facts={"runs": runs}, next=[hits]
    )


def _run_facts(run: Any, root: Path) -> Facts:
    headline = run["headline"]
    names = ("rank", "state", "step", "op", "reason", "message", "hits", "exit_code", "error")
    return without_nothing(
        {
            "id": run["id"],
            "wrong": None if headline is None else headline["text"],
            "line": None if headline is None else place_text(headline["source"], root),
            "do": None if headline is None else headline["advice"],
            "ranks": [
                without_nothing({name: each[name] for name in names}) for each in run["ranks"]
            ],
            "title": run["title"],
            "watchpoints": [f"{each['id']}: {each['name']}" for each in run["watchpoints"]],
            "controls": run["controls"],
        }
    )


def _hits_answer(document: Any, root: Path) -> ToolAnswer:
    hits = [
        without_nothing(
            {
                "id": f"step {each['step']} {each['op']} {each['io']}.{each['slot']}",
                "message": None if each["headline"] is None else each["headline"]["text"],
                "condition": each["condition"],
                "verdict": each["verdict"],
                "line": place_text(each["source"], root),
                "origin": each["origin"],
                "do": each["advice"],
            }
        )
        for each in document["hits"]
    ]
    status = NextCall(tool="control", arguments={"action": "status"}, why="where it is now")
    return ToolAnswer(
        verdict=f"{count_text(document['total'], 'hit')} of watchpoints",
        facts={"hits": hits},
        truncated=document["total"] > len(hits),
        next=[status],
    )
