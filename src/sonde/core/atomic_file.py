"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

_PARTIAL: Final = ".partial"
_NAME_LIMIT_BYTES: Final = 255


def write_whole(path: Path, data: bytes | str) -> None:
    """Write ``data`` (text as UTF-8) to the file ``path``, or leave the file as it is."""
    content = data.encode() if isinstance(data, str) else data

    def write(partial: Path) -> None:
        partial.write_bytes(content)

    replace_file(path, write)


def replace_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` create a hidden partial file and rename it to ``path``.

    A process killed at any moment leaves the old file or the new one, never a part. When ``write``
    raises, the partial file is removed. Safe from several threads and processes: the last wins.
    The directory must exist. A power cut may leave an empty file: ``replace_file_durably``.
    """
    partial = path.with_name(_partial_name(path.name))
    try:
        write(partial)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def replace_file_durably(path: Path, write: Callable[[Path], None]) -> None:
    """Like ``replace_file``; on return the file is on the disk, safe from a power cut."""

    def write_and_flush(partial: Path) -> None:
        write(partial)
        _flush_to_disk(partial)

    replace_file(path, write_and_flush)
    _flush_to_disk(path.parent)


def remove_stale_partials(directory: Path, prefix: str) -> None:
    """Delete partial files, named ``prefix``..., of processes of this machine that were killed."""
    host = re.escape(socket.gethostname())
    pattern = re.compile(rf"\.{re.escape(prefix)}.*\.(\d+)-\d+@{host}\{_PARTIAL}$")
    for path in directory.glob(f".*{_PARTIAL}"):
        found = pattern.match(path.name)
        if found and not _is_alive(int(found[1])):
            path.unlink(missing_ok=True)


def _partial_name(name: str) -> str:
    """The hidden name of a file while this thread writes it; a long name loses its beginning."""
    tail = f".{os.getpid()}-{threading.get_ident()}@{socket.gethostname()}{_PARTIAL}"
    room = _NAME_LIMIT_BYTES - 1 - len(tail.encode())
    return f".{name.encode()[-room:].decode('utf-8', 'ignore')}{tail}"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
