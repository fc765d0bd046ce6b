"""The one way in which Sonde creates files: whole or not at all, and never through a link.

A file is written under a hidden name that nobody can foresee, opened with O_EXCL and O_NOFOLLOW,
and renamed. A link that another user placed at either name in a shared directory is therefore
refused or replaced; the file it points to is never opened. Modes follow the umask. The native
writer (``native/writer/files.cpp``) does the same.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

_PARTIAL: Final = ".partial"
_NAME_LIMIT_BYTES: Final = 255


def write_whole(path: Path, data: bytes | str) -> None:
    """Write ``data`` (text as UTF-8) to the file ``path``, or leave the file as it is.

    A device or a pipe of that name (``/dev/stdout``) is written to, not replaced.
    """
    content = data.encode() if isinstance(data, str) else data
    if _is_stream(path):
        # Without O_CREAT and O_TRUNC no file is created or emptied.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CLOEXEC), "wb") as stream:
            stream.write(content)
    else:
        replace_file(path, lambda file: file.write(content))


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a new hidden file, whose path is its ``name``, and rename it to ``path``.

    A process killed at any moment leaves the old file or the new one, never a part. When ``write``
    raises, the partial file is removed. Safe from several threads and processes: the last wins.
    The directory must exist. A power cut may leave an empty file: ``replace_file_durably``.
    """
    partial = partial_path(path)
    with open_new(partial) as file:
        try:
            write(file)
            file.close()
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def replace_file_durably(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Like ``replace_file``; on return the file is on the disk, safe from a power cut."""

    def write_and_flush(file: BinaryIO) -> None:
        write(file)
        file.flush()
        os.fsync(file.fileno())

    replace_file(path, write_and_flush)
    _flush_directory(path.parent)


def start_file(path: Path) -> BinaryIO:
    """A new empty file at ``path`` for output that others read while it grows, such as a log.

    A file or link of that name is removed first.
    """
    path.unlink(missing_ok=True)
    return open_new(path)


def open_new(path: Path) -> BinaryIO:
    """Create a file; FileExistsError if there is a file or a link of that name."""
    return open(path, "xb", opener=without_links)


def append(path: Path, data: bytes) -> None:
    """Append in one system call, so that a kill leaves all of ``data`` or nothing.

    Several processes may append to one file. A link at ``path`` is an OSError.
    """
    descriptor = without_links(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def without_links(path: str, flags: int) -> int:
    """Opener for ``open``: OSError if the last part of the path is a link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def partial_path(path: Path) -> Path:
    """A hidden name beside ``path`` that no other process uses; a long one loses its beginning."""
    tail = f".{os.getpid()}-{secrets.token_hex(8)}@{socket.gethostname()}{_PARTIAL}"
    room = _NAME_LIMIT_BYTES - 1 - len(tail.encode())
    name = os.fsdecode(os.fsencode(path.name)[-room:].decode("utf-8", "ignore"))
    return path.with_name(f".{name}{tail}")


def remove_stale_partials(directory: Path, prefix: str) -> None:
    """Delete partial files and directories, named ``prefix``..., of processes that were killed.

    Only those of this machine.
    """
    host = re.escape(socket.gethostname())
    pattern = re.compile(rf"\.{re.escape(prefix)}.*\.(\d+)-[0-9a-f]+@{host}\{_PARTIAL}$")
    for path in directory.glob(f".*{_PARTIAL}"):
        found = pattern.match(path.name)
        if not found or _is_alive(int(found[1])):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_stream(path: Path) -> bool:
    """Whether a user names a device, a pipe or an open file of his own, such as /dev/stdout."""
    place = os.path.abspath(path)
    if place.startswith(("/dev/", "/proc/")) and not place.startswith("/dev/shm/"):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _flush_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
