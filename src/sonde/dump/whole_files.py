"""Files that appear whole or not at all, in plain Python; ``native/writer/files.cpp`` in C++."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from sonde.dump.layout import partial_name

_CANNOT_LINK = frozenset(
    {errno.EPERM, errno.EMLINK, errno.EXDEV, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
)
# The most one call takes on Linux; other systems refuse more instead of writing a part.
_CALL_BYTES = 0x7FFFF000


Body: TypeAlias = "bytes | ctypes.Array[ctypes.c_char]"


def memory_at(address: int, nbytes: int) -> Body:
    """Memory somebody else owns, not copied."""
    return (ctypes.c_char * nbytes).from_address(address) if nbytes else b""


def gathered(address: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]) -> bytes:
    """The elements of a tensor in the order of its shape; strides in elements."""
    if itemsize < 1 or len(shape) != len(strides) or any(size < 0 for size in shape):
        raise ValueError("itemsize, shape and strides do not fit together")
    if 0 in shape:
        return b""
    steps = [step * itemsize for step in strides]
    spans = [step * (size - 1) for step, size in zip(steps, shape, strict=True)]
    low = sum(span for span in spans if span < 0)
    high = sum(span for span in spans if span > 0) + itemsize
    memory = (ctypes.c_char * (high - low)).from_address(address + low)
    view: np.ndarray[Any, np.dtype[np.void]] = np.ndarray(
        shape, np.dtype((np.void, itemsize)), memoryview(memory), -low, steps
    )
    return view.tobytes()


def write_file(path: str, worker: int, head: bytes, body: Body) -> None:
    """The file ``path`` with the contents head, body; replaces one of that name.

    No two threads may use one ``worker`` number in one directory at the same time.
    """

    def fill(descriptor: int) -> None:
        _write_all(descriptor, memoryview(head), memoryview(body).cast("B"))

    _make(path, worker, fill)


def link_file(source: str, path: str, worker: int) -> None:
    """Another name for the file ``source``; a copy of it where the file system cannot link."""
    try:
        _link_replacing(source, path, _partial(path, worker))
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
    else:
        return

    def fill(descriptor: int) -> None:
        with open(source, "rb") as origin, open(descriptor, "wb", closefd=False) as copy:
            shutil.copyfileobj(origin, copy, 256 * 1024)

    _make(path, worker, fill)


def move_directory(old: str, new: str) -> None:
    """Rename a directory, making the parents of the new name.

    If the new one exists, what is in the old one moves into it (replacing files of the same name)
    and the old one is removed.
    """
    try:
        os.makedirs(os.path.dirname(new), exist_ok=True)
        os.rename(old, new)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        for name in os.listdir(old):
            move_directory(f"{old}/{name}", f"{new}/{name}")
        os.rmdir(old)


def _partial(path: str, worker: int) -> str:
    """Two long names may end alike; two files of one worker are never written at one time."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/{partial_name(f'{name}.{worker}')}"


def _make(path: str, worker: int, fill: Callable[[int], None]) -> None:
    partial = _partial(path, worker)
    flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC
    descriptor = os.open(partial, flags, 0o666)
    try:
        try:
            fill(descriptor)
        finally:
            os.close(descriptor)
        os.rename(partial, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise


def _write_all(descriptor: int, head: memoryview, body: memoryview) -> None:
    while head.nbytes or body.nbytes:
        now = head[:_CALL_BYTES]
        written = os.writev(descriptor, [now, body[: _CALL_BYTES - now.nbytes]])
        if not written:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        of_head = min(written, head.nbytes)
        head, body = head[of_head:], body[written - of_head :]


def _link_replacing(source: str, path: str, partial: str) -> None:
    try:
        os.link(source, path)
    except FileExistsError:
        with suppress(FileNotFoundError):
            os.unlink(partial)
        os.link(source, partial)
        os.rename(partial, path)
        # Renaming one name of a file to another name of the same file does nothing, by POSIX.
        with suppress(FileNotFoundError):
            os.unlink(partial)
