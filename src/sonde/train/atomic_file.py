"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path

_PARTIAL = ".partial"


def replace_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a hidden partial file, flush it to the disk and move it to ``path``.

    A process killed at any moment leaves the old file or the new one, never a part. When ``write``
    raises, the partial file is removed. Safe from several threads and processes: the last wins.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = f"{os.getpid()}-{threading.get_ident()}@{socket.gethostname()}"
    partial = path.with_name(f".{path.name}.{owner}{_PARTIAL}")
    try:
        write(partial)
        _flush_to_disk(partial)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _flush_to_disk(path.parent)


def remove_stale_partials(directory: Path, prefix: str) -> None:
    """Delete what killed processes of this machine left behind under names starting ``prefix``."""
    host = re.escape(socket.gethostname())
    pattern = re.compile(rf"\.{re.escape(prefix)}.*\.(\d+)-\d+@{host}\{_PARTIAL}$")
    for path in directory.glob(f".*{_PARTIAL}"):
        found = pattern.match(path.name)
        if found and not _is_alive(int(found[1])):
            path.unlink(missing_ok=True)


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
