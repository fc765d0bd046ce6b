"""The writer for machines without the compiled one: each file is written by the call itself.

The contract is ``sonde.dump.writing.writer.Writer``. Nothing is ever pending, so that the budget,
the waiting and the number of threads have no effect.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from sonde.core.files.atomic_file import partial_path, replace_file
from sonde.core.files.directories import make_directory
from sonde.core.interruption import pass_on, start_thread
from sonde.dump.writing import writer
from sonde.dump.writing.directory_tree import Directory, DirectoryTree
from sonde.kernels import memory

_CANNOT_LINK: Final = frozenset(
    {errno.EPERM, errno.EMLINK, errno.EXDEV, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
)


class PythonWriter:
    """Owns its lock; may be used from any thread."""

    pending_bytes = 0

    def __init__(self, threads: int, budget_bytes: int) -> None:
        if not 1 <= threads <= 256 or budget_bytes < 1:
            raise ValueError("threads must be 1 to 256, budget_bytes at least 1")
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._closed = False
        self._next_number = 1
        self._directories = DirectoryTree()
        self._files: dict[int, tuple[Directory, str]] = {}
        self._written_bytes = 0
        self._error: OSError | None = None

    @property
    def written_bytes(self) -> int:
        return 0 if self._is_forked() else self._written_bytes

    @property
    def error(self) -> OSError | None:
        failure = None if self._is_forked() else self._error
        # A new one each time, without the traceback, which would keep frames alive.
        return failure and OSError(failure.errno, failure.strerror, failure.filename)

    def write(self, path: str, header: bytes, address: int, nbytes: int, keep: object, /) -> int:
        if nbytes < 0:
            raise ValueError("nbytes must not be negative")
        body = memory.buffer(address, nbytes) if nbytes else b""
        return self._write_file(path, header, body)

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
        if itemsize < 1 or len(shape) != len(strides) or any(size < 0 for size in shape):
            raise ValueError("itemsize, shape and strides do not fit together")
        elements = memory.view(address, f"V{itemsize}", shape, strides)
        return self._write_file(path, header, elements.tobytes())

    def write_text(self, path: str, data: bytes, /) -> int:
        return self._write_file(path, data, b"")

    def link(self, job: int, path: str, /) -> bool:
        _check_file_path(path)
        if self._is_forked():
            return True
        self._check_known(job)
        with self._lock:
            known = self._files.get(job)
            if self._error is None and known is None:
                return False
            source = f"{known[0].path()}/{known[1]}" if known else ""
            self._perform(path, lambda: _link_file(source, path))
        return True

    def barrier_rename(self, old_directory: str, new_directory: str, /) -> None:
        _check_path(old_directory)
        _check_path(new_directory)
        old, new = old_directory.rstrip("/") or "/", new_directory.rstrip("/") or "/"
        if self._is_forked():
            return
        with self._lock:
            if self._perform(old, lambda: _move_directory(old, new)):
                self._directories.move(old, new)

    def barrier_remove(self, directory: str, /) -> None:
        _check_path(directory)
        if not self._is_forked():
            with self._lock:
                self._perform(directory, lambda: _remove_directory(directory))

    def own(self, job: int, /) -> None:
        self.wait(job)

    def wait(self, job: int, /) -> None:
        if not self._is_forked():
            self._check_known(job)

    def wait_all(
        self,
        progress: Callable[[int, int], None] | None = None,
        interval_seconds: float = 0.5,
    ) -> None:
        if not 0 < interval_seconds <= 1e6:
            raise ValueError("interval_seconds must be above 0 and at most 1e6")

    def close(self) -> None:
        self._closed = True

    def _is_forked(self) -> bool:
        """True in a child process, where the lock may be held by a thread that does not exist."""
        return os.getpid() != self._process

    def _check_known(self, job: int) -> None:
        if not 1 <= job < self._next_number:
            raise ValueError(f"there is no job {job}")

    def _write_file(self, path: str, header: bytes, body: bytes | memoryview) -> int:
        _check_file_path(path)
        if not isinstance(header, bytes):
            raise TypeError("header and data must be bytes")

        def write(file: BinaryIO) -> None:
            file.write(header)
            file.write(body)

        if self._is_forked():
            return 0
        with self._lock:
            number = self._next_number
            if self._perform(path, lambda: replace_file(Path(path), write)):
                directory, _, name = path.rpartition("/")
                self._files[number] = (self._directories.at(directory), name)
                self._written_bytes += len(header) + len(body)
        return number

    def _perform(self, path: str, action: Callable[[], None]) -> bool:
        """Do one job, unless an earlier one failed; True if it is done. An error has ``path``."""
        if self._closed:
            raise ValueError("the writer is closed")
        if self._error is None:
            try:
                action()
            except OSError as error:
                pass_on(error)
                self._error = OSError(error.errno or errno.EIO, error.strerror, path)
        self._files.pop(self._next_number - writer.LINKABLE_JOBS, None)
        self._next_number += 1
        return self._error is None


def _check_path(path: str) -> None:
    if not isinstance(path, str):
        raise TypeError(f"path must be str, not {type(path).__name__}")
    if not path.startswith("/") or "\0" in path:
        raise ValueError(f"path must be absolute, without NUL: {path!r}")


def _check_file_path(path: str) -> None:
    _check_path(path)
    if path.endswith("/"):
        raise ValueError(f"path must name a file: {path!r}")


def _link_file(source: str, path: str) -> None:
    """Another name for the file ``source``; a copy of it where the file system cannot link."""
    try:
        with suppress(FileExistsError):
            os.link(source, path)
            return
        if not os.path.samefile(source, path):
            partial = partial_path(Path(path))
            os.link(source, partial)
            os.replace(partial, path)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        with open(source, "rb") as original:
            replace_file(Path(path), lambda file: shutil.copyfileobj(original, file))


def _remove_directory(path: str) -> None:
    """Remove a directory and all in it, as far as that is possible.

    ``shutil.rmtree`` takes every exception for a failure of its own, also one of the program's
    signal handlers, and so it runs in a thread that has no signal handlers.
    """
    thread = threading.Thread(target=shutil.rmtree, args=(path,), kwargs={"ignore_errors": True})
    start_thread(thread)
    thread.join()


def _move_directory(old: str, new: str) -> None:
    """Rename a directory, creating the parents of the new name.

    If the new directory exists, the contents of the old one move into it, replacing files of the
    same name, and the old one is removed.
    """
    try:
        make_directory(Path(new).parent)
        os.rename(old, new)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        for name in os.listdir(old):
            _move_directory(f"{old}/{name}", f"{new}/{name}")
        os.rmdir(old)
