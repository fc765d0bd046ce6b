"""The writer for machines without a compiler; the contract is ``sonde.dump.writer.Writer``.

It works as ``native/writer/engine.cpp`` does and is to be read beside it. Its threads need the GIL
between system calls, so that a training pays more for them.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from sonde.dump import writer
from sonde.dump.whole_files import gathered, memory_at
from sonde.dump.writer_jobs import (
    Directory,
    Job,
    Target,
    absolute_path,
    checked_bytes,
    file_path,
    perform,
)

_SLICE_SECONDS = 0.05


class PythonWriter:
    """Owns its lock; may be used from any thread."""

    def __init__(self, threads: int, budget_bytes: int) -> None:
        if not 1 <= threads <= 256 or budget_bytes < 1:
            raise ValueError("threads must be 1 to 256, budget_bytes at least 1")
        self._budget = budget_bytes
        self._process = os.getpid()
        lock = threading.Lock()
        self._work = threading.Condition(lock)
        self._changed = threading.Condition(lock)
        self._closed = False
        self._stopping = False
        self._renaming = False
        self._queue: deque[Job] = deque()
        self._released: deque[Job] = deque()
        self._started: dict[str, Job] = {}
        self._pending: dict[int, Job] = {}
        self._targets: dict[int, Target] = {}
        self._next_number = 1
        self._finished: list[object] = []
        self._directories: dict[str, Directory] = {}
        self._prune_above = 64
        self._pending_bytes = 0
        self._written_files = 0
        self._written_bytes = 0
        self._error: OSError | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(n,), name="sonde-writer", daemon=True)
            for n in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    # ------------------------------------------------------------ the contract

    @property
    def pending_bytes(self) -> int:
        self.release()
        return 0 if self._inert() else self._pending_bytes

    @property
    def pending_jobs(self) -> int:
        self.release()
        return 0 if self._inert() else len(self._pending)

    @property
    def written_bytes(self) -> int:
        self.release()
        return 0 if self._inert() else self._written_bytes

    @property
    def written_files(self) -> int:
        self.release()
        return 0 if self._inert() else self._written_files

    @property
    def error(self) -> OSError | None:
        self.release()
        failure = None if self._inert() else self._error
        # A new one each time, without the traceback, which would keep a thread's frames alive.
        return failure and OSError(failure.errno, failure.strerror, failure.filename)

    def write(self, path: str, header: bytes, address: int, nbytes: int, keep: object, /) -> int:
        if nbytes < 0:
            raise ValueError("nbytes must not be negative")
        body = memory_at(address, nbytes)
        job = Job("file", file_path(path), None, checked_bytes(header), body, keep, nbytes > 0)
        return self._submit(job)

    def write_strided(
        self,
        path: str,
        header: bytes,
        address: int,
        itemsize: int,
        shape: Sequence[int],
        strides: Sequence[int],
        keep: object,
        /,
    ) -> int:
        body = gathered(address, itemsize, shape, strides)
        return self._submit(Job("file", file_path(path), None, checked_bytes(header), body))

    def write_text(self, path: str, data: bytes, /) -> int:
        return self._submit(Job("file", file_path(path), head=checked_bytes(data)))

    def link(self, job: int, path: str, /) -> bool:
        link = Job("link", file_path(path), source=job)
        if self._inert():
            return True
        self._check_known(job)
        with self._work:
            if self._error is not None:
                return True
            link.source_target = self._targets.get(job)
        if link.source_target is None:
            return False
        self._submit(link)
        return True

    def barrier_rename(self, old_directory: str, new_directory: str, /) -> None:
        old, new = absolute_path(old_directory), absolute_path(new_directory)
        self._submit(Job("rename", old.rstrip("/") or "/", renamed_to=new.rstrip("/") or "/"))

    def own(self, job: int, /) -> None:
        if self._inert():
            return
        self._check_known(job)
        lent = self._pending.get(job)
        if lent is None or not lent.is_lent:
            return
        copy = bytes(lent.body)
        with self._work:
            if is_replaced := not lent.is_running:
                self._finished.append(lent.keep)
                lent.body, lent.keep, lent.is_lent = copy, None, False
        if not is_replaced:
            self._wait(lambda: job not in self._pending)
        self.release()

    def is_pending(self, job: int, /) -> bool:
        self.release()
        return not self._inert() and job in self._pending

    def wait(self, job: int, /) -> None:
        if not self._inert():
            self._check_known(job)
            self._wait(lambda: job not in self._pending)

    def wait_all(
        self,
        progress: Callable[[int, int], None] | None = None,
        interval_seconds: float = 0.5,
    ) -> None:
        if not 0 < interval_seconds <= 1e6:
            raise ValueError("interval_seconds must be above 0 and at most 1e6")
        limit = None if progress is None else interval_seconds
        while not self._inert() and not self._wait(lambda: not self._pending, limit):
            if progress is not None:
                progress(len(self._pending), self._pending_bytes)

    def release(self) -> None:
        if self._finished and not self._inert():
            with self._work:
                finished, self._finished = self._finished, []
            # Here, without the lock: dropping the last reference may run any code.
            finished.clear()

    def close(self) -> None:
        if self._closed or self._inert():
            return
        self.wait_all()
        self._closed = True
        self.wait_all()
        with self._work:
            self._stopping = True
            self._work.notify_all()
        for thread in self._threads:
            thread.join()
        self.release()

    # ------------------------------------------------------------ submission

    def _inert(self) -> bool:
        return os.getpid() != self._process

    def _check_known(self, job: int) -> None:
        if not 1 <= job < self._next_number:
            raise ValueError(f"there is no job {job}")

    def _wait(self, done: Callable[[], bool], limit_seconds: float | None = None) -> bool:
        """Wait for ``done``; False when the time is over before."""
        end = None if limit_seconds is None else time.monotonic() + limit_seconds
        while not self._inert():
            left = _SLICE_SECONDS if end is None else max(0.0, end - time.monotonic())
            with self._changed:
                came = self._changed.wait_for(done, min(left, _SLICE_SECONDS))
            self.release()
            if came or (end is not None and time.monotonic() >= end):
                return came
        return True

    def _has_room(self, size: int) -> bool:
        if self._error is not None:
            return True
        if len(self._pending) >= writer.PENDING_JOBS:
            return False
        return not size or not self._pending_bytes or self._pending_bytes + size <= self._budget

    def _submit(self, job: Job) -> int:
        while True:
            self.release()
            if self._closed:
                raise ValueError("the writer is closed")
            if self._inert():
                return 0
            with self._work:
                if self._has_room(job.bytes):
                    return self._enqueue(job)
            self._wait(lambda: self._has_room(job.bytes))

    def _enqueue(self, job: Job) -> int:
        job.number = self._next_number
        self._next_number += 1
        if self._error is not None:
            return job.number
        if job.kind == "rename":
            self._plan_moves(job)
        else:
            directory, _, name = job.path.rpartition("/")
            job.target = Target(self._directory_at(directory), name)
            if job.kind == "file":
                self._targets[job.number] = job.target
        self._targets.pop(job.number - writer.LINKABLE_JOBS, None)
        self._pending[job.number] = job
        self._pending_bytes += job.bytes
        self._queue.append(job)
        self._work.notify()
        return job.number

    def _plan_moves(self, job: Job) -> None:
        """Jobs queued from now on mean by the old path whatever is there after the rename."""
        old, new = job.path, job.renamed_to
        if old == new:
            return
        moved = [at for at in self._directories if at == old or at.startswith(f"{old}/")]
        for path, directory in [(at, self._directories.pop(at)) for at in moved]:
            job.moves.append((directory, self._directory_at(new + path[len(old) :])))

    def _directory_at(self, path: str) -> Directory:
        if path not in self._directories and len(self._directories) >= self._prune_above:
            self._prune_directories()
        return self._directories.setdefault(path, Directory(path))

    def _prune_directories(self) -> None:
        """Forget the directories that no file a link may name is in."""
        jobs = self._pending.values()
        used = {id(to) for job in jobs for _, to in job.moves}
        used |= {id(job.target.directory) for job in jobs if job.target is not None}
        for target in self._targets.values():
            used |= {id(each) for each in target.directory.places()}
        self._directories = {at: each for at, each in self._directories.items() if id(each) in used}
        self._prune_above = 2 * len(self._directories) + 64

    # ------------------------------------------------------------ the threads

    def _run(self, worker: int) -> None:
        while True:
            with self._work:
                while (job := self._next()) is None:
                    if self._stopping:
                        return
                    self._work.wait()
                failed = self._error is not None
                job.is_running = True
            failure = None if failed else perform(job, worker)
            with self._work:
                if failure is not None and self._error is None:
                    self._error = failure
                if failure is None and not failed and job.kind == "file":
                    self._written_files += 1
                    self._written_bytes += job.bytes
                self._complete(job)

    def _next(self) -> Job | None:
        if self._released:
            return self._released.popleft()
        while self._queue and not self._renaming:
            job = self._queue[0]
            if job.kind == "rename":
                if next(iter(self._pending)) != job.number:
                    return None
                self._renaming = True
                return self._queue.popleft()
            self._queue.popleft()
            if not self._park(job):
                return job
        return None

    def _park(self, job: Job) -> bool:
        earlier = [self._pending.get(job.source), self._started.get(job.path)]
        for each in filter(None, earlier):
            each.after.append(job)
            job.waits_for += 1
        self._started[job.path] = job
        return job.waits_for > 0

    def _complete(self, job: Job) -> None:
        for later in job.after:
            later.waits_for -= 1
            if not later.waits_for:
                self._released.append(later)
        for directory, successor in job.moves:
            directory.moved_to = successor
        if job.kind == "rename":
            self._renaming = False
        elif self._started.get(job.path) is job:
            del self._started[job.path]
        if job.keep is not None:
            self._finished.append(job.keep)
            job.keep = None
        self._pending_bytes -= job.bytes
        del self._pending[job.number]
        self._work.notify_all()
        self._changed.notify_all()
