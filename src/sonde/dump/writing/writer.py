"""Writes files in the background: the contract, and the choice of the implementation.

The native writer (``native/writer``) has threads that never take the GIL. The Python writer
(``sonde.dump.writing.python_writer``), which needs no compiler, writes each file before it returns.
``SONDE_WRITER=native|python`` chooses one of them, for tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol

from sonde.core.errors import UsageError

CHOICE_VARIABLE = "SONDE_WRITER"
LINKABLE_JOBS = 65536
"""A link may name one of this many latest jobs."""


class Writer(Protocol):
    """A queue of files and the threads that write them. For use from any thread.

    *Order.* A link comes after its file; of two jobs with the same path, the file of the
    one queued last remains; ``barrier_rename`` and ``barrier_remove`` come after everything queued
    before them and before everything queued later. Apart from that files appear in any order.

    *Whole files.* A file appears under its name when it is whole, or not at all, also when the
    process is killed. Directories must be there: none is made. Paths are absolute.

    *Memory.* ``write`` waits while more than the budget, or more than 65,536 jobs, would be pending
    (a job larger than the budget waits until nothing is); nothing is dropped. Waiting ends with an
    exception when a signal handler raises one, as Ctrl-C does; the job is then not queued.

    *Failure.* The first failure is kept in ``error``. From then on nothing is written any more,
    queued files are dropped, and no method waits or raises.

    *Fork.* In a forked child the writer does nothing: every method returns at once.

    *End.* A writer that is garbage-collected still writes what is queued; one that exists when the
    interpreter ends does not. The code that opens a writer closes it.
    """

    @property
    def pending_bytes(self) -> int:
        """Bytes of the files that are queued or being written, headers included."""

    @property
    def written_bytes(self) -> int:
        """Bytes of the files written so far, headers included; links count nothing."""

    @property
    def error(self) -> OSError | None:
        """The first failure, with ``errno`` and ``filename``."""

    def write(self, path: str, header: bytes, address: int, nbytes: int, keep: object, /) -> int:
        """Queue a file: ``header``, then ``nbytes`` bytes of memory at ``address``.

        ``keep`` owns that memory and is referred to until the file is written; the reference is
        dropped by the next call of any method, in the thread that calls. The memory must not
        change before the file is written; see ``own``. Returns the job's number.
        """

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
        """Like ``write``, for elements that are not contiguous; strides in elements.

        They are put in the order of the shape when the file is written.
        """

    def write_text(self, path: str, data: bytes, /) -> int:
        """Queue a small file; ``data`` is copied. Returns the job's number."""

    def link(self, job: int, path: str, /) -> bool:
        """Queue another name for the file of ``job``, wherever a rename has taken it since.

        A copy where the file system cannot link. False, and nothing is queued, if ``job`` is not
        one of the ``LINKABLE_JOBS`` latest: its name is forgotten, and the caller must write.
        """

    def barrier_rename(self, old_directory: str, new_directory: str, /) -> None:
        """Queue the renaming of a directory; the parents of the new name are made.

        If the new directory exists, the contents of the old one move into it.
        """

    def barrier_remove(self, directory: str, /) -> None:
        """Queue the removal of a directory and all in it; what cannot be removed stays.

        The files in it must not be linked to any more.
        """

    def own(self, job: int, /) -> None:
        """Return when the memory given to ``write`` may change: the writer then has a copy.

        If it is being written just now, waits for that; if it is done, returns at once. The
        caller keeps the memory alive during the call.
        """

    def wait(self, job: int, /) -> None:
        """Return when the job's file is in place, or the writer has failed."""

    def wait_all(
        self,
        progress: Callable[[int, int], None] | None = None,
        interval_seconds: float = 0.5,
    ) -> None:
        """Return when no job is pending any more.

        Meanwhile the waiting thread calls ``progress(pending_jobs, pending_bytes)`` at each
        interval; jobs are files, links, renames and removals.
        """

    def close(self) -> None:
        """Wait for all jobs, end the threads, release everything; a second call does nothing.

        Interrupted by a signal, the writer stays open. After it, queueing is a ``ValueError``.
        """


def open_writer(threads: int, budget_bytes: int) -> Writer:
    """A writer of so many threads that holds at most about ``budget_bytes`` of pending files.

    ``ValueError`` unless both are positive.
    """
    choice = os.environ.get(CHOICE_VARIABLE, "")
    if choice not in ("", "native", "python"):
        raise UsageError(
            f"{CHOICE_VARIABLE}={choice!r} is not a writer; write native or python",
            slug="writer-choice",
        )
    if choice != "python":
        try:
            from sonde.dump.writing import _writer

            return _writer.Writer(threads, budget_bytes)
        except ImportError:
            if choice == "native":
                raise
    from sonde.dump.writing.python_writer import PythonWriter

    return PythonWriter(threads, budget_bytes)
