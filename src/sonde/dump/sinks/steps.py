"""The directories of steps, their graphs and execution orders, shared by the sinks of one dump."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sonde.core.coverage import Coverage
from sonde.core.errors import DumpError
from sonde.core.files.atomic_file import append, write_whole
from sonde.core.files.directories import make_directory
from sonde.core.graph import Graph
from sonde.core.interruption import ignored
from sonde.core.selection import StepSet
from sonde.core.sink import Sink, StepEnd, TensorView
from sonde.core.text.number_text import duration, size_text
from sonde.core.text.problem_line import ProblemLine
from sonde.core.text.terminal_text import is_stderr_terminal, write_to_stderr
from sonde.dump.graph_files import execution_order
from sonde.dump.graph_files import ir as graph_ir
from sonde.dump.graph_files.columns import encode_columns
from sonde.dump.graph_files.encode import encode_graph
from sonde.dump.layout import MAPPING, RankLayout
from sonde.dump.writing.writer import Writer

_log = logging.getLogger("sonde.dump")
_MIN_SHOWN_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class Written:
    """The steps, files and bytes that a dump has; hard links are files without bytes."""

    files: int = 0
    nbytes: int = 0
    _ranges: list[tuple[int, int]] = field(default_factory=list)

    @property
    def steps(self) -> StepSet:
        return StepSet(tuple(self._ranges))

    def add_step(self, step: int) -> None:
        """Add a step, which is later than those before it."""
        follows = bool(self._ranges) and self._ranges[-1][1] + 1 == step
        first = self._ranges.pop()[0] if follows else step
        self._ranges.append((first, step))

    def add(self, nbytes: int, files: int = 1) -> None:
        self.files += files
        self.nbytes += nbytes


class StepFiles(Sink):
    """The directories of one rank. A step is written to ``unfinished/`` until its graph is known.

    ``running`` counts the files of the running step, ``written`` those of steps that are kept.
    ``graphs_only``: there are no files of steps, only graphs and the order of execution.

    It is also the last sink of its dump: when a step ends, it writes the graph if that is new and
    renames the directory of the step. Used from the training thread; the writer keeps files and
    renames in order.
    """

    def __init__(
        self,
        rank: RankLayout,
        net: str,
        writer: Writer,
        report: Callable[[str], None] | None = None,
        *,
        graphs_only: bool = False,
    ) -> None:
        self._report = report
        self.graphs_only = graphs_only
        self.running = Written()
        self.written = Written()
        self.rank = rank
        self._net = net
        self._writer = writer
        self._written: set[int] = set()
        self._ordered: set[int] = set()
        self._step = -1
        self._directory: Path | None = None
        self._is_mapped = False
        self._kept_step = -1
        self.graphs: list[Graph] = []

    def write_coverage(self, coverage: Coverage) -> None:
        """Write what was observed, when the run has ended. A process whose children do the training
        writes nothing: the files are theirs."""
        if coverage.is_delegated and not coverage.has_observed:
            return
        with ignored(OSError):  # The disk is full: that is reported already.
            text = json.dumps(coverage.to_json(), indent=4)
            write_whole(self.rank.observation, text + "\n")

    def open(self, step: int) -> Path:
        """The directory for the files of the running step, created at the first call."""
        if self._directory is None or step != self._step:
            self._step = step
            self._is_mapped = False
            self._directory = self.rank.unfinished_step_dir(self._net, step)
            try:
                make_directory(self._directory)
            except OSError as error:
                raise _stopped(error) from None
        return self._directory

    def keep_step(self, step: int) -> None:
        """Write the graph and the order of a step although it may have no directory: its
        statistics are elsewhere."""
        self._kept_step = step

    def append_mapping(self, line: str) -> None:
        """Add a line to ``mapping.csv``; must precede the file that it names."""
        assert self._directory is not None
        data = line.encode()
        append(self._directory / MAPPING, data)
        self.running.add(len(data), 0 if self._is_mapped else 1)
        self._is_mapped = True

    def is_new(self, graph: Graph) -> bool:
        return graph.id not in self._written

    def constants_directory(self, graph: Graph) -> Path:
        directory = self.rank.constants_dir(self._net, graph.id)
        make_directory(directory)
        return directory

    def has(self, view: TensorView) -> bool:
        return True

    def end_step(self, end: StepEnd) -> None:
        raise_failure(self._writer)
        is_kept = self.graphs_only or self._kept_step == end.step
        if self._directory is None and not is_kept:
            return  # Nothing was written in the step.
        try:
            self._place_step(self._directory, end)
        except OSError as error:
            raise _stopped(error) from None
        self._directory = None

    def place(self, end: StepEnd) -> Path:
        """The directory of a step that has ended."""
        return self.rank.step_dir(self._net, end.graph.id, end.step)

    def _place_step(self, directory: Path | None, end: StepEnd) -> None:
        if self.running.files or self.graphs_only or self._kept_step == end.step:
            self.written.add_step(end.step)
        self.written.add(self.running.nbytes, self.running.files)
        self.running = Written()
        for graph in (end.graph, *end.parts):
            if self.is_new(graph):
                self._write_graph(graph)
        steps = execution_order.write_steps([end.step]).encode()
        append(self.rank.global_order_csv(end.graph.id), steps)
        self.written.add(len(steps), end.graph.id not in self._ordered)
        self._ordered.add(end.graph.id)
        if directory is None:
            return
        target = self.place(end)
        make_directory(target.parent)
        self._writer.barrier_rename(str(directory), str(target))
        _log.info("the files of step %d go to %s", end.step, target)

    def _write_graph(self, graph: Graph) -> None:
        self._written.add(graph.id)
        _log.info("graph %d has %d ops; its files go to %s", graph.id, len(graph), self.rank.graphs)
        self.graphs.append(graph)
        make_directory(self.rank.graphs)
        make_directory(self.rank.execution_order)
        pb = encode_graph(graph)
        order = execution_order.write_node_order(node.name for node in graph.ops)
        for path, data in (
            (self.rank.graph_pb(graph.id), pb),
            (self.rank.graph_ir(graph.id), graph_ir.write_ir(graph).encode()),
            (self.rank.order_csv(graph.id), order.encode()),
            (self.rank.graph_columns(graph.id), encode_columns(graph, pb)),
        ):
            if data is not None:
                self._writer.write_text(str(path), data)
                self.written.add(len(data))

    def drop_step(self) -> None:
        """Remove the running step's directory."""
        self.running = Written()
        if self._directory is not None:
            self._writer.barrier_remove(str(self._directory))
            self._directory = None

    def close(self) -> None:
        """Wait for the writer, showing progress if much is left, and remove the empty directory."""
        began = time.perf_counter()
        _wait_showing_progress(self._writer, self._report)
        _log.info(
            "%s written in all to %s; the end waited %s for it",
            size_text(self._writer.written_bytes),
            self.rank.root,
            duration(time.perf_counter() - began),
        )
        self._writer.close()
        with ignored(OSError):
            os.rmdir(self.rank.unfinished_step_dir(self._net, 0).parent)
        raise_failure(self._writer)


def raise_failure(writer: Writer) -> None:
    """Raise DumpError if the writer has failed."""
    error = writer.error
    if error is not None:
        raise _stopped(error)


def _stopped(error: OSError) -> DumpError:
    return DumpError(
        f"{error.filename or 'the dump'}: the dump stops here, training goes on: "
        f"{error.strerror or error}",
        slug="dump-stopped",
    )


def write_metadata(rank: RankLayout, config: str, facts: Mapping[str, str]) -> None:
    """Write the configuration and the facts about the program, each whole or not at all."""
    make_directory(rank.metadata)
    write_whole(rank.metadata_dump_config, config)
    write_whole(rank.metadata_config, json.dumps(dict(facts), indent=4) + "\n")


def make_room(rank: RankLayout, report: Callable[[str], None]) -> None:
    """Move the dump of an earlier run at ``rank`` aside, so that two dumps are never mixed.

    Metadata alone does not count: a process that only starts others writes nothing else. Nor do a
    verdict or findings without a step. What another user made always counts: he could have placed
    links in it.
    """
    try:
        is_ours = os.lstat(rank.root).st_uid == os.geteuid()
    except FileNotFoundError:
        return
    files = {rank.metadata, rank.overflow, rank.findings}
    if is_ours and rank.root.exists() and set(rank.root.iterdir()) <= files:
        rank.overflow.unlink(missing_ok=True)
        rank.findings.unlink(missing_ok=True)
        rank.observation.unlink(missing_ok=True)
        return
    number = 1
    while os.path.lexists(aside := Path(f"{rank.root}.previous-{number}")):
        number += 1
    try:
        os.rename(rank.root, aside)
    except OSError as error:
        raise DumpError(
            f"{rank.root} is in the way and cannot be moved aside: {error.strerror}; dump to "
            "another directory",
            slug="config-path",
        ) from None
    report(ProblemLine(f"sonde: an earlier dump was moved to {aside}", slug="dump-moved"))


def _wait_showing_progress(writer: Writer, report: Callable[[str], None] | None) -> None:
    """Wait for the writer; if much is left, show how much, with ``report`` (None: not at all).

    On a terminal this is one line that is rewritten.
    """
    total = writer.pending_bytes
    if total < _MIN_SHOWN_BYTES or report is None:
        writer.wait_all()
        return
    if not is_stderr_terminal():
        report(f"sonde: writing the last {size_text(total)} of the dump")
        writer.wait_all()
        return

    def show(jobs: int, pending: int) -> None:
        done = f"{size_text(total - pending)} of {size_text(total)}"
        text = f"\rsonde: writing the dump, {done}, {jobs} files to go "
        write_to_stderr(text)

    try:
        writer.wait_all(show)
    finally:
        write_to_stderr("\r\x1b[K")
