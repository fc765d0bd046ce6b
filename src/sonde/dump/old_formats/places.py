"""Where the files of an old dump belong: rank, network, graph and step, from its directories."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sonde.dump.old_formats.ascend_raw import is_raw_file, parse_raw_name
from sonde.dump.old_formats.bin_files import parse_bin_name

_STEP = re.compile(r"(?:iteration_|step_?)?([0-9]{1,9})")
_RANK = re.compile(r"(?:device_|rank_?)?([0-9]{1,9})")
_CERTAIN_RANK = re.compile(r"(?:device_|rank_?)([0-9]{1,9})")
_NUMBER = re.compile(r"[0-9]{1,9}")
_GRAPH_OF = re.compile(r"(.+)_graph_([0-9]{1,9})")
_GRAPHS = "graphs"
_MAX_ENTRIES = 1_000_000


@dataclass(frozen=True, slots=True)
class OldStep:
    """One directory of an old dump.

    ``graph_id`` is None where the directories do not say it. ``home`` is the directory with the
    graph files (``graphs``, ``execution_order``), None without them.
    """

    rank: int
    net: str
    graph_id: int | None
    step: int
    home: Path | None
    bins: tuple[Path, ...]
    raws: tuple[Path, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        return self.bins + self.raws


def find_old_steps(path: Path) -> list[OldStep]:
    """The directories of ``path``, or the file itself, with ``.bin`` or raw files of Ascend.

    Their order is that of rank and step. Known layouts are ``NET/device_0/iteration_3``,
    ``NET/iteration_3``, ``0/NET_graph_1/1/3``, ``rank_0/NET/1/3`` and parts of them.
    """
    if path.is_file():
        found = _old_step(path.parent, (), [path])
        return [] if found is None else [found]
    steps = []
    for directory, files in _directories(path):
        found = _old_step(directory, directory.relative_to(path).parts, files)
        if found is not None:
            steps.append(found)
    return sorted(steps, key=lambda each: (each.rank, each.net, each.graph_id or 0, each.step))


def _directories(path: Path) -> Iterator[tuple[Path, list[Path]]]:
    seen = 0
    for directory, below, files in os.walk(path):
        below.sort()
        seen += len(files) + len(below)
        if seen > _MAX_ENTRIES:
            return
        yield Path(directory), [Path(directory, name) for name in sorted(files)]


def _old_step(directory: Path, parts: Sequence[str], files: Sequence[Path]) -> OldStep | None:
    bins = tuple(each for each in files if parse_bin_name(each.name) is not None)
    raws = tuple(each for each in files if parse_raw_name(each.name) is not None)
    if raws and not is_raw_file(raws[0]):
        raws = ()
    if not bins and not raws:
        return None
    rank, net, graph_id, step = _numbers(parts or _last_parts(directory))
    return OldStep(rank, net, graph_id, step, _home(directory), bins, raws)


def _last_parts(directory: Path) -> tuple[str, ...]:
    """The names that certainly belong to the dump, where the user gave a part of it."""
    parts = directory.absolute().parts
    last = parts[-1] if parts else ""
    return (last,) if _STEP.fullmatch(last) and not _NUMBER.fullmatch(last) else ()


def _numbers(parts: Sequence[str]) -> tuple[int, str, int | None, int]:
    """Rank, network, graph and step of the parts of a path."""
    left = list(parts)
    step = graph_id = None
    if left and (match := _STEP.fullmatch(left[-1])):
        step = int(match[1])
        is_bare = _NUMBER.fullmatch(left.pop()) is not None
        # Where a step is a bare number, the graph is one too, below the network.
        if is_bare and len(left) > 1 and _NUMBER.fullmatch(left[-1]):
            graph_id = int(left.pop())
    rank = 0
    for pattern in (_CERTAIN_RANK, _RANK):
        place = next((k for k, part in enumerate(left) if pattern.fullmatch(part)), None)
        if place is not None:
            match = pattern.fullmatch(left.pop(place))
            rank = int(match[1]) if match else 0
            break
    net = left[-1] if left else "Net"
    if (named := _GRAPH_OF.fullmatch(net)) is not None:
        net = named[1]
        graph_id = int(named[2]) if graph_id is None else graph_id
    return rank, net, graph_id, 0 if step is None else step


def _home(directory: Path) -> Path | None:
    """The nearest directory above that has graph files."""
    for parent in (directory, *list(directory.absolute().parents)[:4]):
        if (parent / _GRAPHS).is_dir():
            return parent
    return None
