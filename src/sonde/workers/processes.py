"""Runs work in several processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Final, TypeVar

from sonde.workers.run import Work, WorkerError

T = TypeVar("T")

_AHEAD: Final = 2
"""Pieces of work that are submitted for each process, so that none waits for the next one."""


def run_in_processes(work: Iterable[Work[T]], count: int) -> Iterator[T]:
    """The results in order. Without processes (a system without semaphores), this process works."""
    rest = iter(work)
    waiting: deque[tuple[Work[T], Future[T] | None]] = deque()
    pool = _start(count)
    try:
        while True:
            for each in islice(rest, _AHEAD * count - len(waiting)):
                waiting.append((each, _submit(pool, each)))
            if not waiting:
                return
            first, future = waiting.popleft()
            try:
                result = first.run() if future is None else future.result()
            except BrokenExecutor:
                # It is not known at which work the process was killed: each is run again alone.
                _end(pool)
                again = [first, *(each for each, _ in waiting)]
                waiting.clear()
                for each in again:
                    yield _run_again(each)
                pool = _start(count)
                continue
            yield result
    finally:
        _end(pool)


def _run_again(work: Work[T]) -> T:
    """Run one piece of work in a process of its own."""
    pool = _start(1)
    try:
        future = _submit(pool, work)
        return work.run() if future is None else future.result()
    except BrokenExecutor:
        raise WorkerError(
            f"{work.name}: the worker process was killed twice, perhaps for lack of memory; use "
            "fewer with --workers",
            slug="worker-failed",
        ) from None
    finally:
        _end(pool)


def _start(count: int) -> ProcessPoolExecutor | None:
    spawn = multiprocessing.get_context("spawn")
    with suppress(OSError, NotImplementedError):  # A system without semaphores.
        return ProcessPoolExecutor(count, spawn, initializer=_end_with_parent)
    return None


def _end(pool: ProcessPoolExecutor | None) -> None:
    if pool is not None:
        pool.shutdown(wait=False, cancel_futures=True)


def _submit(pool: ProcessPoolExecutor | None, work: Work[T]) -> Future[T] | None:
    """Submit work; a pool that is broken already gives a future that says so."""
    if pool is None:
        return None
    try:
        return pool.submit(work.function, *work.arguments)
    except BrokenExecutor as error:
        broken: Future[T] = Future()
        broken.set_exception(error)
        return broken
    except OSError:  # No process could be started.
        return None


def _end_with_parent() -> None:
    """End this worker process if its parent is killed; it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
