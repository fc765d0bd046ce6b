"""Watchpoints asked of a dump: all its steps and ranks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sonde.debugger.hits import HitCollector
from sonde.dump.reading.directories import StepDir
from sonde.server.dumps.index import IndexedDump, StepTensors
from sonde.server.dumps.step_judging import JudgedTensor, graph_of, judge_step, settle
from sonde.server.dumps.stored_observation import RankOrigins
from sonde.wire.shapes import Hit, WatchpointSpec

Progress = Callable[[int, int, Sequence[Hit]], bool]
"""Tensors done, tensors in all (as far as known), new hits; False ends the check."""

_BETWEEN = 256
"""Tensors between two reports."""
_ALONE_SECONDS: Final = 3.0
"""What takes longer is worth processes, which need a while to begin."""
_WORTH_SECONDS: Final = 4.0
"""One step that takes so long is shared out in parts, though each process lists it by itself."""
_SECONDS_BY_ROW: Final = 15e-6
_SECONDS_BY_FILE: Final = 60e-6
_RUBBISH: Final = 200_000
_SHELVES: Final[dict[Path, IndexedDump]] = {}
"""In a process that judges steps for another: the dump it reads."""


def recheck(shelf: IndexedDump, specs: Sequence[WatchpointSpec], progress: Progress) -> None:
    """Judge all tensors of all ranks, step by step, in execution order.

    What takes long is shared out among processes, one a core; what they find is put together in
    order.
    """
    directories = [each for rank in shelf.dump.ranks for each in shelf.steps(rank)]
    books = {rank: HitCollector() for rank in shelf.dump.ranks}
    origins = {rank: RankOrigins() for rank in shelf.dump.ranks}
    done = whole = 0
    with closing(_steps(shelf, specs, directories)) as steps:
        for directory, count, found in steps:
            rank = directory.rank
            done += count
            if found is None:  # A part of a step, of which all others are supposed to be like it.
                size = len(shelf.listing(directory).tensors)
                if not progress(done, max(done, size * (len(directories) - whole)), ()):
                    return
                continue
            whole += 1
            graph, listing = graph_of(shelf, directory), shelf.listing(directory)
            for hit in settle(origins[rank], listing, graph, specs, found):
                books[rank].add(hit)
            books[rank].end_step()
            left = (len(directories) - whole) * done // whole
            if not progress(done, done + left, books[rank].take()):
                return


Judged = tuple[int, list[JudgedTensor]]
"""How many tensors, and those with something to tell."""
Found = tuple[StepDir, int, list[JudgedTensor] | None]
"""A step, how many of its tensors were judged since, and those with something to tell; None: there
is more of it."""


def _steps(
    shelf: IndexedDump, specs: Sequence[WatchpointSpec], directories: Sequence[StepDir]
) -> Generator[Found, None, None]:
    """Each step in order: here at first, and in several processes if it takes long."""
    start = time.monotonic()
    for number, directory in enumerate(directories):
        is_long = time.monotonic() - start > _ALONE_SECONDS and number + 1 < len(directories)
        if is_long or _seconds(shelf.listing(directory)) > _WORTH_SECONDS:
            shelf.keep()  # So that the others need not list the same again.
            yield from _shared_out(shelf.dump.path, specs, directories, number)
            return
        found: list[JudgedTensor] = []
        count = told = 0
        former = _former_of(directories, number)
        for count, judged in enumerate(judge_step(shelf, specs, directory, former), 1):
            if judged.hits or judged.bad is not None:
                found.append(judged)
            if count % _BETWEEN == 0:
                yield directory, count - told, None
                told = count
        yield directory, count - told, found


def _seconds(listing: StepTensors) -> float:
    """About how long the tensors of a step take, small ones."""
    rows = sum(each.row is not None for each in listing.tensors)
    return rows * _SECONDS_BY_ROW + (len(listing.tensors) - rows) * _SECONDS_BY_FILE


def _shared_out(
    path: Path, specs: Sequence[WatchpointSpec], directories: Sequence[StepDir], first: int
) -> Iterator[Found]:
    """The steps from ``first`` on; where there are fewer than cores, in parts."""
    cores = os.cpu_count() or 1
    parts = -(-cores // (len(directories) - first))
    work = ((number, part) for number in range(first, len(directories)) for part in range(parts))
    waiting: deque[tuple[int, int, Callable[[], Judged]]] = deque()
    found: list[JudgedTensor] = []
    with _Team(cores) as team:
        while True:
            for number, part in islice(work, 2 * cores - len(waiting)):
                where = (directories[number], _former_of(directories, number))
                job = team.begin(path, specs, *where, (part, parts))
                waiting.append((number, part, job))
            if not waiting:
                return
            number, part, result = waiting.popleft()
            count, judged = result()
            found.extend(judged)
            is_whole = part + 1 == parts
            yield directories[number], count, found if is_whole else None
            if is_whole:
                found = []


class _Team:
    """Processes that judge steps; where there can be none, or one is killed, it is done here."""

    def __init__(self, cores: int) -> None:
        self._pool: ProcessPoolExecutor | None = None
        spawn = multiprocessing.get_context("spawn")
        with suppress(OSError, NotImplementedError):  # A system without semaphores.
            self._pool = ProcessPoolExecutor(cores, spawn, initializer=_end_with_parent)

    def __enter__(self) -> _Team:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def begin(self, *work: Any) -> Callable[[], Judged]:
        """Have ``judge_apart`` called with this; what is given back waits for its result."""
        job: Future[Judged] | None = None
        if self._pool is not None:
            with suppress(OSError, BrokenExecutor):
                job = self._pool.submit(judge_apart, *work)

        def result() -> Judged:
            if job is not None:
                with suppress(BrokenExecutor):
                    return job.result()
            return judge_apart(*work)

        return result


def _end_with_parent() -> None:
    """A parent that is killed takes this process along, which would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def judge_apart(
    path: Path,
    specs: Sequence[WatchpointSpec],
    directory: StepDir,
    former: StepDir | None,
    part: tuple[int, int],
) -> Judged:
    """A part of a step, in a process of its own."""
    shelf = _SHELVES.get(path)
    if shelf is None:
        gc.set_threshold(_RUBBISH)
        shelf = _SHELVES[path] = IndexedDump(path)
    found = list(judge_step(shelf, specs, directory, former, part))
    return len(found), [each for each in found if each.hits or each.bad is not None]


def _former_of(directories: Sequence[StepDir], number: int) -> StepDir | None:
    """The step of the same net and rank that was dumped before."""
    this = directories[number]
    for each in reversed(directories[:number]):
        if (each.rank, each.net) == (this.rank, this.net):
            return each
    return None
