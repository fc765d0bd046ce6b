"""What ``sonde show`` says of a dump of captured steps; no step is executed for it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sonde.core.text.number_text import count_text, size_text
from sonde.dump.reader import Dump
from sonde.dump.reading.captured_rank import CapturedPlace

Captured = Mapping[tuple[int, int], CapturedPlace]


def captured_lines(dump: Dump, captured: Captured) -> Iterator[str]:
    """The overview, line by line."""
    config = dump.metadata().config
    nets = ", ".join(dump.nets())
    yield f"{dump.path}: {nets}, captured steps by Sonde {config.get('sonde_version', '')}".strip()
    for rank in sorted({rank for rank, _ in captured}):
        places = {step: place for (owner, step), place in captured.items() if owner == rank}
        size = size_text(sum(_size(place.path) for place in places.values()))
        computed = sum(place.is_computed for place in places.values())
        yield (
            f"rank {rank}: {count_text(len(places), 'step')} ({_span(list(places))}), {size}; "
            f"tensors computed of {computed}"
        )
    yield (
        "The tensors of a step are computed by executing it again, when they are asked for. Ops of "
        "data loading and metrics are not part of it."
    )
    last = max(step for _, step in captured)
    yield f"Tensors: sonde show {dump.path} --step {last}"


def captured_json(dump: Dump, rank: int | None, captured: Captured) -> dict[str, Any]:
    """The same for programs."""
    return {
        "writer": dump.writer(rank),
        "metadata": dump.metadata(rank).config,
        "ranks": list(dump.ranks if rank is None else (rank,)),
        "nets": list(dump.nets(rank)),
        "captured_steps": [
            {
                "rank": owner,
                "step": step,
                "path": str(place.path),
                "bytes": _size(place.path),
                "is_computed": place.is_computed,
            }
            for (owner, step), place in captured.items()
        ],
    }


def _span(steps: list[int]) -> str:
    return str(steps[0]) if len(steps) == 1 else f"{min(steps)} to {max(steps)}"


def _size(directory: Path) -> int:
    try:
        with os.scandir(directory) as entries:
            return sum(entry.stat().st_size for entry in entries)
    except OSError:
        return 0
