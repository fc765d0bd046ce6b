"""Runs a program with the overflow watch and reads its files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.adapters.torch.dumping import dumping

import sonde

INF = math.inf
NAN = math.nan
Entries = dict[int, list[dict[str, Any]]]


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def entries_in(path: Path) -> Entries:
    files = {int(file.parent.name): file for file in path.rglob("[0-9]*/overflow.json")}
    return {
        step: json.loads(files[step].read_text(), parse_constant=refuse) for step in sorted(files)
    }


def watch(path: Path, body: Callable[[], Any], *, steps: int = 1, most: int = 0) -> Entries:
    """``overflow.json`` of each step; ``body`` is one step."""
    with dumping(path, step_by="manual", debug_mode="overflow", overflow_number=most):
        for _ in range(steps):
            body()
            sonde.step()
    return entries_in(path)


def told(entries: list[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    return [(entry["op"], entry["role"], entry["from"]) for entry in entries]
