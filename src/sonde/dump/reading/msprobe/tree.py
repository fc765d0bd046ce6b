"""Finds a dump by msprobe and reads its steps on demand."""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from sonde.core.errors import DumpError
from sonde.dump.graph_files.pb import GraphFile, GraphWriter
from sonde.dump.layout import DEFAULT_FORMAT, RankLayout
from sonde.dump.op_names import OpText
from sonde.dump.reading.directories import DumpProblem, RankTree, StepDir
from sonde.dump.reading.msprobe.document import (
    DOCUMENT,
    TENSORS,
    ProbedStep,
    read_parents,
    read_stacks,
    read_step,
)
from sonde.dump.reading.msprobe.graph import StoredPlace, build_graph
from sonde.dump.reading.statistic_rows import StatisticRow
from sonde.dump.reading.step_listing import Item, Listing

_STEP = re.compile(r"step_?([0-9]{1,9})")
_RANK = re.compile(r"rank_?([0-9]{1,9})")
_PROCESS = re.compile(r"proc([0-9]{1,9})")
_BOTH = ("graph", "pynative")
_KEPT_STEPS = 4

Directories = dict[int, dict[int, Path]]
"""Rank and step to the directory with ``dump.json``."""


def find_msprobe(path: Path) -> tuple[Path, Directories] | None:
    """The dump at ``path``: its directory, a step of it, or a rank of a step; None if there is
    none. A process without a rank counts as one, if no rank was dumped."""
    if not path.is_dir():
        return None
    path = path.absolute()
    if (path / DOCUMENT).is_file():
        step = _number(_STEP, path.parent.name) or 0
        return path, {_number(_RANK, path.name) or 0: {step: path}}
    steps = {0 if (own := _number(_STEP, path.name)) is None else own: path}
    if not _ranks_of(path):
        steps = {
            number: Path(entry)
            for entry in _directories(path)
            if (number := _number(_STEP, entry.name)) is not None
        }
    found: Directories = {}
    for step, directory in sorted(steps.items()):
        for rank, place in _ranks_of(directory).items():
            found.setdefault(rank, {})[step] = place
    if found:
        return path, dict(sorted(found.items()))
    inside = [name for name in _BOTH if (path / name).is_dir() and find_msprobe(path / name)]
    if inside:
        raise DumpError(
            f"{path} holds {len(inside)} dumps of msprobe: {', '.join(inside)}; give one of them",
            slug="no-dump",
        )
    return None


def _ranks_of(step: Path) -> dict[int, Path]:
    """The directories of ranks with a ``dump.json``; without any, those of processes."""
    inside = [Path(entry) for entry in _directories(step) if (Path(entry) / DOCUMENT).is_file()]
    ranks = {n: each for each in inside if (n := _number(_RANK, each.name)) is not None}
    if ranks:
        return ranks
    processes = sorted(
        (n, each) for each in inside if (n := _number(_PROCESS, each.name)) is not None
    )
    return {rank: each for rank, (_, each) in enumerate(processes)}


def _directories(path: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted((each for each in entries if each.is_dir()), key=lambda each: each.name)
    except OSError:
        return []


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    match = pattern.fullmatch(name)
    return None if match is None else int(match[1])


def scan_msprobe(rank: int, directories: dict[int, Path]) -> RankTree:
    """The steps of one rank. Steps with the same calls and shapes share a graph."""
    source = MsprobeRank()
    steps: list[StepDir] = []
    problems: list[DumpProblem] = []
    for number, directory in directories.items():
        try:
            step = source.read(directory)
        except DumpError as error:
            problems.append(DumpProblem.of(directory / DOCUMENT, error))
            continue
        net = f"{step.framework or 'pytorch'} {step.level}".strip()
        graph_id = source.graph_id(step, directory)
        steps.append(StepDir(rank, net, graph_id, number, directory / TENSORS))
    return RankTree(
        rank,
        RankLayout(next(iter(directories.values()))),
        tuple(dict.fromkeys(step.net for step in steps)),
        tuple(steps),
        (),
        tuple(sorted({step.graph_id for step in steps if step.graph_id is not None})),
        tuple(problems),
        source,
    )


@dataclass
class MsprobeRank:
    """Reads the steps of one rank. May be used from several threads."""

    _lock: threading.RLock = field(default_factory=threading.RLock)
    _steps: OrderedDict[Path, ProbedStep] = field(default_factory=OrderedDict)
    _ids: dict[object, int] = field(default_factory=dict)
    _places: dict[int, Path] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    writer: GraphWriter = "msprobe"

    def read(self, directory: Path) -> ProbedStep:
        """The ``dump.json`` in a directory; the last few are kept."""
        with self._lock:
            found = self._steps.pop(directory, None) or read_step(directory)
            self._steps[directory] = found
            while len(self._steps) > _KEPT_STEPS:
                self._steps.popitem(last=False)
            self.config = self.config or {
                "msprobe_level": found.level,
                "msprobe_task": found.task,
                "framework": found.framework or "pytorch",
            }
            return found

    def graph_id(self, step: ProbedStep, directory: Path) -> int:
        number = self._ids.setdefault(step.structure, len(self._ids))
        self._places.setdefault(number, directory)
        return number

    def graph(self, graph_id: int) -> GraphFile:
        """The graph of the first step that has it."""
        directory = self._places[graph_id]
        stacks = read_stacks(directory)
        built = build_graph(self.read(directory), read_parents(directory), stacks, graph_id)
        return GraphFile(built.graph, "msprobe")

    def listing(self, step: StepDir) -> Listing:
        """The tensors of a step under their names in its graph."""
        directory = step.path.parent
        # Lines of code do not change the names of tensors.
        built = build_graph(self.read(directory), read_parents(directory), {}, step.graph_id or 0)
        items = [_item(place) for place in built.tensors]
        return Listing(step.path, items, [], {}, [])


def _item(place: StoredPlace) -> Item:
    tensor = place.tensor
    row = StatisticRow(
        place.node_type,
        place.node,
        place.order,
        place.io,
        place.slot,
        prod(tensor.shape) * tensor.dtype.itemsize,
        tensor.dtype.name,
        tensor.shape,
        dict(tensor.values),
        is_single=True,
    )
    return Item(
        OpText(place.node_type, place.node, True),
        place.io,
        place.slot,
        place.order,
        DEFAULT_FORMAT,
        tensor.dtype.label,
        tensor.file,
        row,
    )
