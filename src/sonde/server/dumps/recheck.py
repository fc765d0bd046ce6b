"""Evaluates watchpoints on all steps and ranks of a dump, in several processes if that is slow;
for the server in a background thread."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from sonde.dump.reading.directories import DumpProblem, StepDir
from sonde.dump.reading.stored_statistics import non_finite_steps
from sonde.server.dumps.index import IndexedDump, StepTensors
from sonde.server.dumps.step_evaluation import (
    EvaluatedTensor,
    complete_hits,
    evaluate_step,
    graph_of,
)
from sonde.server.dumps.stored_observation import RankOrigins
from sonde.watch.hits import HitCollector
from sonde.watch.streaks import Streaks
from sonde.wire.api import RecheckView
from sonde.wire.convert import wire_hit
from sonde.wire.shapes import Hit, WatchpointSpec
from sonde.workers.run import Work, WorkerOptions, run_work

_log = logging.getLogger("sonde.server")
_ANNOUNCE_SECONDS: Final = 0.3
_REPORT_EVERY: Final = 256
"""Tensors between two reports of progress."""
_ALONE_SECONDS: Final = 3.0
"""A check that takes longer uses several processes, which take a while to start."""
_WORTH_SECONDS: Final = 4.0
"""A step that takes longer is divided into parts, although each process lists the whole step."""
_SECONDS_PER_ROW: Final = 15e-6
_SECONDS_PER_FILE: Final = 60e-6
_GC_THRESHOLD: Final = 200_000
_OVERFLOW: Final = "tensor_overflow"
_DEFAULT_WORKERS: Final = WorkerOptions()
_DUMPS: Final[dict[Path, IndexedDump]] = {}
"""In a worker process: the dump that it reads."""


class CheckProgress(NamedTuple):
    """Tensors done, tensors in total (as far as known), new hits, files that cannot be read."""

    done: int
    total: int
    hits: Sequence[Hit] = ()
    problems: Sequence[DumpProblem] = ()


def recheck(
    dump: IndexedDump,
    specs: Sequence[WatchpointSpec],
    report: Callable[[CheckProgress], bool],
    workers: WorkerOptions = _DEFAULT_WORKERS,
) -> None:
    """Evaluate all tensors of all ranks, step by step, in execution order.

    The check ends if ``report`` returns False.
    """
    directories = [each for rank in dump.dump.ranks for each in dump.steps(rank)]
    collectors = {rank: HitCollector() for rank in dump.dump.ranks}
    origins = {rank: RankOrigins() for rank in dump.dump.ranks}
    streaks = {rank: Streaks() for rank in dump.dump.ranks}
    directories, done = _worth_checking(specs, directories)
    steps_done = 0
    if not directories:
        report(CheckProgress(done, done))
    with closing(_steps(dump, specs, directories, workers)) as steps:
        for directory, count, found in steps:
            rank = directory.rank
            done += count
            if found is None:  # A part of a step: estimate that all other steps have its size.
                size = len(dump.listing(directory).tensors)
                total = max(done, size * (len(directories) - steps_done))
                if not report(CheckProgress(done, total)):
                    return
                continue
            steps_done += 1
            graph, listing = graph_of(dump, directory), dump.listing(directory)
            for hit in complete_hits(origins[rank], listing, graph, specs, found, streaks[rank]):
                collectors[rank].add(hit)
            collectors[rank].end_step()
            total = done + (len(directories) - steps_done) * done // steps_done
            hits = [wire_hit(hit) for hit in collectors[rank].take()]
            problems = [problem for each in found for problem in each.problems]
            if not report(CheckProgress(done, total, hits, problems)):
                return


def _worth_checking(
    specs: Sequence[WatchpointSpec], directories: Sequence[StepDir]
) -> tuple[list[StepDir], int]:
    """The steps that can have hits, and the number of tensors of all others: if only NaN and Inf
    are watched for, Parquet files say by one query which steps have any."""
    if not all(each.id == _OVERFLOW for spec in specs for each in spec.conditions):
        return list(directories), 0
    stores = {each.stored.directory for each in directories if each.stored is not None}
    steps = {each: non_finite_steps(each) for each in stores}
    kept, skipped = [], 0
    for each in directories:
        if each.stored is None or each.path.exists() or each.step in steps[each.stored.directory]:
            kept.append(each)
        else:
            skipped += each.stored.rows
    return kept, skipped


EvaluatedPart = tuple[int, list[EvaluatedTensor]]
"""The number of tensors, and those with a result."""
_Evaluated = tuple[StepDir, int, list[EvaluatedTensor] | None]
"""A step, the number of its tensors that were evaluated since the last report, and the tensors with
a result; None: the step is not complete."""


def _steps(
    dump: IndexedDump,
    specs: Sequence[WatchpointSpec],
    directories: Sequence[StepDir],
    workers: WorkerOptions,
) -> Generator[_Evaluated, None, None]:
    """Evaluate each step in order, first in this process, then in several if it takes long, or if
    the user asked for them."""
    start = time.monotonic()
    for number, directory in enumerate(directories):
        is_long = time.monotonic() - start > _ALONE_SECONDS and number + 1 < len(directories)
        is_large = is_long or _estimated_seconds(dump.listing(directory)) > _WORTH_SECONDS
        if workers.is_chosen or (is_large and not workers.is_alone):
            dump.keep()  # So that the workers need not list the same steps again.
            yield from _evaluate_elsewhere(dump.dump.path, specs, directories, number, workers)
            return
        found: list[EvaluatedTensor] = []
        count = reported = 0
        previous = _previous_step(directories, number)
        for count, evaluated in enumerate(evaluate_step(dump, specs, directory, previous), 1):
            if evaluated:
                found.append(evaluated)
            if count % _REPORT_EVERY == 0:
                yield directory, count - reported, None
                reported = count
        yield directory, count - reported, found


def _estimated_seconds(listing: StepTensors) -> float:
    """About how long the tensors of a step take, if they are small."""
    rows = sum(each.row is not None for each in listing.tensors)
    return rows * _SECONDS_PER_ROW + (len(listing.tensors) - rows) * _SECONDS_PER_FILE


def _evaluate_elsewhere(
    path: Path,
    specs: Sequence[WatchpointSpec],
    directories: Sequence[StepDir],
    first: int,
    workers: WorkerOptions,
) -> Iterator[_Evaluated]:
    """Evaluate the steps from ``first`` on in other processes; in parts if there are fewer steps
    than processes."""
    parts = -(-workers.count // (len(directories) - first))
    places = [(number, part) for number in range(first, len(directories)) for part in range(parts)]
    work = (
        Work(
            f"step {directories[number].step}, rank {directories[number].rank}",
            evaluate_part,
            (path, specs, directories[number], _previous_step(directories, number), (part, parts)),
        )
        for number, part in places
    )
    found: list[EvaluatedTensor] = []
    for (number, part), (count, evaluated) in zip(places, run_work(work, workers), strict=True):
        found.extend(evaluated)
        is_complete = part + 1 == parts
        yield directories[number], count, found if is_complete else None
        if is_complete:
            found = []


def evaluate_part(
    path: Path,
    specs: Sequence[WatchpointSpec],
    directory: StepDir,
    previous: StepDir | None,
    part: tuple[int, int],
) -> EvaluatedPart:
    """Evaluate a part of a step, in a worker process."""
    dump = _DUMPS.get(path)
    if dump is None:
        gc.set_threshold(_GC_THRESHOLD)
        dump = _DUMPS[path] = IndexedDump(path)
    found = list(evaluate_step(dump, specs, directory, previous, part))
    return len(found), [each for each in found if each]


def _previous_step(directories: Sequence[StepDir], number: int) -> StepDir | None:
    """The step of the same net and rank that was dumped before."""
    this = directories[number]
    for each in reversed(directories[:number]):
        if (each.rank, each.net) == (this.rank, this.net):
            return each
    return None


Take = Callable[["BackgroundCheck", Sequence[Hit]], None]


class BackgroundCheck:
    """One check of a dump, in a thread; ``take`` is called in the event loop's thread."""

    def __init__(self, dump: IndexedDump, specs: Sequence[WatchpointSpec], take: Take) -> None:
        self._dump = dump
        self._specs = tuple(specs)
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self._done, self._total = 0, 0
        self._waiting: list[Hit] = []
        self._announced = 0.0
        self._started = time.monotonic()
        self.is_running = True
        self.failure = ""

    def view(self, hits: int) -> RecheckView:
        notes: tuple[str, ...] = ()
        if self._stopped.is_set():
            notes = (f"stopped after {self._done:,} of about {self._total:,} tensors",)
        left = None
        if self.is_running and self._done:
            took = time.monotonic() - self._started
            left = took / self._done * max(self._total - self._done, 0)
        return RecheckView(self.is_running, self._done, self._total, hits, notes, left)

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        try:
            recheck(self._dump, self._specs, self._report)
        except Exception as error:  # The page shows the failure.
            _log.exception("the check of %s failed", self._dump.dump.path)
            self.failure = f"the check failed: {type(error).__name__}: {error} [server-failed]"
        finally:
            self.is_running = False
            if not self._stopped.is_set():
                self._total = self._done
            self._announce()

    def _report(self, progress: CheckProgress) -> bool:
        self._done, self._total = progress.done, progress.total
        self._waiting.extend(progress.hits)
        now = self._loop.time()
        if now - self._announced > _ANNOUNCE_SECONDS:
            self._announced = now
            self._announce()
        return not self._stopped.is_set()

    def _announce(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, self, waiting)
