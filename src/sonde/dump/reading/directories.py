"""The directories of a dump on disk: which ranks, nets, graphs and steps there are.

Only directories are listed here, never the files of a step, so that a dump of any size opens fast.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sonde.core.errors import DumpError, SondeError
from sonde.dump import layout
from sonde.dump.layout import RankLayout
from sonde.dump.reading.recognition import looks_like, old_format
from sonde.dump.reading.side_files import read_net_name
from sonde.dump.reading.stored_statistics import StoredStep, stored_steps

if TYPE_CHECKING:
    from sonde.dump.graph_files.pb import GraphFile, GraphWriter
    from sonde.dump.reading.step_listing import Listing

FOREIGN = "is not part of a dump"
_SEARCH_DEPTH = 3
_SEARCH_LIMIT = 20_000
_LOOKED_AT = 5
_OWN_DIRECTORIES = frozenset(
    {layout.METADATA, layout.GRAPHS, layout.EXECUTION_ORDER, layout.STATISTICS}
)


@dataclass(frozen=True, slots=True)
class DumpProblem:
    """A file or directory of a dump that could not be read, and why; the rest is readable.

    ``is_foreign``: it does not belong to a dump. ``is_gap``: the file says that a part of the run
    was not observed, other than by choice of the user. ``slug``: the name of the problem, a heading
    of ``docs/messages.md``.
    """

    path: Path
    message: str
    is_foreign: bool = False
    is_gap: bool = False
    slug: str = "dump-file"

    @classmethod
    def of(cls, path: Path, error: SondeError) -> DumpProblem:
        return cls(path, error.message.removeprefix(f"{path}: "), slug=error.slug)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class StepDir:
    """One directory of tensors; ``graph_id`` is None where the process ended inside the step.

    ``stored``: the rows of the step in Parquet files; then the directory need not exist.
    """

    rank: int
    net: str
    graph_id: int | None
    step: int
    path: Path
    stored: StoredStep | None = None


class StepSource(Protocol):
    """Reads graphs and steps of a rank that are not in the layout of Sonde and MindSpore: written
    by another program, or captured steps.

    ``config`` says which program it was, like ``.dump_metadata/config.json``.
    """

    @property
    def writer(self) -> GraphWriter: ...

    @property
    def config(self) -> dict[str, Any]: ...

    def graph(self, graph_id: int) -> GraphFile:
        """DumpError if it cannot be read."""

    def listing(self, step: StepDir) -> Listing:
        """The tensors of a step; DumpError if they cannot be read."""


@dataclass(frozen=True, slots=True)
class RankTree:
    """The contents of one rank's directory; steps by number, then graph.

    ``source`` is None for the layout of Sonde and MindSpore.
    """

    rank: int
    layout: RankLayout
    nets: tuple[str, ...]
    steps: tuple[StepDir, ...]
    constants: tuple[StepDir, ...]
    graph_ids: tuple[int, ...]
    problems: tuple[DumpProblem, ...]
    source: StepSource | None = None


def find_ranks(path: Path) -> dict[int, Path]:
    """Rank number to directory, for a dump, one of its ranks, or a directory above one dump."""
    if not path.is_dir():
        what = "is not a directory" if path.exists() else "does not exist"
        raise DumpError(
            f"{path} {what}; give the directory of a dump, the one with rank_0 in it",
            slug="no-dump",
        )
    path = path.absolute()
    if ranks := _ranks_in(path):
        return ranks
    if (number := layout.parse_rank(path.name)) is not None:
        return {number: path}
    if any((path / name).is_dir() for name in _OWN_DIRECTORIES):
        return {0: path}
    return _ranks_in(_search_below(path))


def has_ranks(path: Path) -> bool:
    """Whether there is a dump of the layout of Sonde and MindSpore at ``path`` or below."""
    try:
        return bool(find_ranks(path))
    except DumpError:
        return False


def _search_below(path: Path) -> Path:
    found = sorted(_dumps_below(path))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(str(each.relative_to(path)) for each in found[:5])
        more = " and others" if len(found) > 5 else ""
        raise DumpError(
            f"{path} holds {len(found)} dumps: {names}{more}; give one of them", slug="no-dump"
        )
    for parent in path.parents:
        if layout.parse_rank(parent.name) is not None:
            raise DumpError(
                f"{path} is a part of the dump {parent.parent}; give that directory",
                slug="no-dump",
            )
    known = looks_like(path)
    if known is not None:
        raise DumpError(f"{path} holds no dump that Sonde reads: {known}", slug="foreign-dump")
    raise DumpError(
        f"{path} holds no dump: no rank_0 in it or below; give the directory of a dump",
        slug="no-dump",
    )


def _dumps_below(path: Path) -> Iterator[Path]:
    """Directories with ranks, breadth first, to a limited depth and number."""
    level, seen = [path], 0
    for _ in range(_SEARCH_DEPTH):
        below: list[Path] = []
        for directory in level:
            for entry in _entries(directory):
                seen += 1
                if seen > _SEARCH_LIMIT:
                    return
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                    below.append(Path(entry.path))
        for directory in below:
            if _ranks_in(directory):
                yield directory
        level = [directory for directory in below if not _ranks_in(directory)]


def _ranks_in(path: Path) -> dict[int, Path]:
    found = {
        rank: Path(entry.path)
        for entry in _entries(path)
        if (rank := layout.parse_rank(entry.name)) is not None and entry.is_dir()
    }
    return dict(sorted(found.items()))


def _entries(path: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def scan_rank(rank: int, root: Path) -> RankTree:
    """List the directories of one rank; files that do not belong there become problems."""
    scan = _Scan(rank)
    nets = []
    for entry in _entries(root):
        if not entry.is_dir():
            if entry.name not in (layout.OVERFLOW, layout.FINDINGS):
                scan.foreign(entry)
        elif entry.name in _OWN_DIRECTORIES and not _has_numbers(entry):
            continue
        elif scan.net(entry):
            nets.append(entry.name)
    paths = RankLayout(root)
    nets += scan.stored(paths, nets)
    graph_ids = {step.graph_id for step in scan.steps if step.graph_id is not None}
    for file in _entries(paths.graphs):
        if (parsed := layout.parse_graph_file(file.name)) is not None:
            if parsed[1] != "columns":  # a side file alone is no graph
                graph_ids.add(parsed[0])
        elif not file.is_dir():
            scan.foreign(file)
    return RankTree(
        rank,
        paths,
        tuple(nets),
        tuple(sorted(scan.steps, key=_step_order)),
        tuple(sorted(scan.constants, key=_step_order)),
        tuple(sorted(graph_ids)),
        tuple(scan.problems),
    )


def refuse_old_format(tree: RankTree) -> None:
    """DumpError if the steps have files of an old format only, which must be converted."""
    for step in tree.steps[:1]:
        try:
            with os.scandir(step.path) as entries:
                files = [Path(entry.path) for entry in islice(entries, _LOOKED_AT)]
        except OSError:
            continue
        kinds = [old_format(file) for file in files]
        if kinds and all(kinds):
            dump = tree.layout.root.parent
            raise DumpError(
                f"{dump} holds {kinds[0]}; convert it: sonde convert {dump} OUT",
                slug="foreign-dump",
            )


def _step_order(step: StepDir) -> tuple[int, str, int]:
    return step.step, step.net, -1 if step.graph_id is None else step.graph_id


def _has_numbers(entry: os.DirEntry[str]) -> bool:
    """Whether there are numbered directories in it; a net may be called ``graphs``."""
    return any(
        layout.parse_id(below.name) is not None and below.is_dir()
        for below in _entries(Path(entry.path))
    )


@dataclass(slots=True)
class _Scan:
    rank: int
    steps: list[StepDir] = field(default_factory=list)
    constants: list[StepDir] = field(default_factory=list)
    problems: list[DumpProblem] = field(default_factory=list)

    def foreign(self, entry: os.DirEntry[str]) -> None:
        if layout.is_partial(entry.name):
            self.problems.append(
                DumpProblem(Path(entry.path), "was being written when the dump ended")
            )
        else:
            self.problems.append(DumpProblem(Path(entry.path), FOREIGN, is_foreign=True))

    def stored(self, paths: RankLayout, nets: Sequence[str]) -> list[str]:
        """Add the steps that have rows in Parquet files; the net, if no directory has its name."""
        try:
            found = {each.step: each for each in stored_steps(paths.statistics)}
        except DumpError as error:
            self.problems.append(DumpProblem.of(paths.statistics, error))
            return []
        if not found:
            return []
        self.steps = [replace(each, stored=found.pop(each.step, None)) for each in self.steps]
        net = nets[0] if nets else read_net_name(paths.metadata_dump_config)
        self.steps += [
            StepDir(self.rank, net, each.graph, step, paths.step_dir(net, each.graph, step), each)
            for step, each in found.items()
        ]
        return [] if nets else [net]

    def net(self, entry: os.DirEntry[str]) -> bool:
        """Whether the directory holds graphs, and so is a net.

        An empty directory is not a net and not a problem either: the process ended before the
        first graph of a net had its directory.
        """
        is_net = False
        entries = _entries(Path(entry.path))
        for below in entries:
            graph_id = layout.parse_id(below.name)
            if below.is_dir() and (graph_id is not None or below.name == layout.UNFINISHED):
                is_net = True
                self._graph(entry.name, graph_id, below)
            elif is_net or not below.is_dir():
                self.foreign(below)
        if not is_net and (entries or not os.access(entry.path, os.R_OK)):
            self.foreign(entry)
        return is_net

    def _graph(self, net: str, graph_id: int | None, entry: os.DirEntry[str]) -> None:
        for below in _entries(Path(entry.path)):
            step = layout.parse_id(below.name)
            if below.is_dir() and step is not None:
                self.steps.append(StepDir(self.rank, net, graph_id, step, Path(below.path)))
            elif below.is_dir() and below.name == layout.CONSTANTS:
                self.constants.append(StepDir(self.rank, net, graph_id, -1, Path(below.path)))
            else:
                self.foreign(below)
