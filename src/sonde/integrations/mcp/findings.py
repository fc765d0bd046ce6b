"""Shortens findings, source lines and programs that ended to the facts of an answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sonde.core.selection import step_set

Facts = dict[str, Any]

_MOST_FRAMES: Final = 3
_MOST_STEPS_TEXT: Final = 200


def without_nothing(facts: Mapping[str, Any]) -> Facts:
    """The facts that say something: not None, not empty."""
    return {name: value for name, value in facts.items() if value not in (None, "", [], {})}


def steps_text(steps: Iterable[int]) -> str | None:
    """Steps as tools take them, ``0-9999``; their number where that is long; None for no step."""
    found = sorted(set(steps))
    if not found:
        return None
    text = str(step_set(found))
    short = len(text) <= _MOST_STEPS_TEXT
    return text if short else f"{len(found)} steps from {found[0]} to {found[-1]}"


def place_text(source: Mapping[str, Any] | None, root: Path) -> str | None:
    """``train.py:30``, relative to the root where the file is below it."""
    if source is None:
        return None
    return f"{shown_path(source['file'], root)}:{source['line']}"


def shown_path(path: str, root: Path) -> str:
    place = Path(os.path.abspath(root / path))
    return os.fspath(place.relative_to(root)) if place.is_relative_to(root) else path


def finding_facts(found: Mapping[str, Any], root: Path) -> Facts:
    """A finding of a diagnosis. Its id is the same in every run of the same code."""
    line = next(iter(found.get("lines") or ()), None)
    at = place_text(line, root) or next(iter(found["where"]), "")
    return without_nothing(
        {
            "id": f"{found['kind']}@{at}",
            "status": found["status"],
            "message": found["message"],
            "line": place_text(line, root),
            "code": None if line is None else line["code"].strip(),
            "step": found["step"],
            "do": found["advice"],
            "where": found["where"],
            "evidence": found["evidence"],
        }
    )


def overflow_facts(overflow: Sequence[Mapping[str, Any]], root: Path) -> list[Facts]:
    """The ops with NaN or Inf in the order in which they ran, producers before carriers."""
    every = [(step, op) for step in overflow for op in step["ops"]]
    every.sort(key=lambda each: (each[0]["step"], each[1]["role"] != "producer"))
    return [
        without_nothing(
            {
                "id": f"step {step['step']} {op['op']}",
                "op": op["op"],
                "step": step["step"],
                "rank": step["rank"],
                "role": op["role"],
                "phase": op["phase"],
                "line": place_text(op["source"], root),
                "code": None if op["source"] is None else op["source"]["code"].strip(),
                "origin": op["origin"],
            }
        )
        for step, op in every
    ]


def kept_facts(steps: Sequence[Mapping[str, Any]], root: Path) -> list[Facts]:
    """The steps that a guard has kept; the id is the directory, which replay and verify take."""
    return [
        without_nothing(
            {
                "id": shown_path(each["path"], root),
                "step": each["step"],
                "rank": each["rank"],
                "kept_because": None if each["trigger"] is None else each["trigger"]["text"],
                "problem": each["problem"],
            }
        )
        for each in steps
    ]


def exception_facts(found: Mapping[str, Any] | None, root: Path) -> Facts | None:
    """What the program raised, with the innermost frames first."""
    if found is None:
        return None
    frames = [
        f"{shown_path(each['file'], root)}:{each['line']} {each['code'] or ''}".strip()
        for each in reversed(found["frames"])
    ]
    return {"type": found["type"], "message": found["message"], "frames": frames[:_MOST_FRAMES]}
