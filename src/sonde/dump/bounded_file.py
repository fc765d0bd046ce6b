"""Reads files that may be damaged or hostile: never a pipe, never more than a limit."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sonde.core.errors import DumpError


def read_bytes(path: Path, max_bytes: int, *, slug: str) -> bytes:
    """The contents of a regular file of at most ``max_bytes``; DumpError for any other."""
    try:
        with open(path, "rb", buffering=0, opener=open_without_blocking) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise DumpError(f"{path}: is not a file", slug=slug)
            if status.st_size > max_bytes:
                raise DumpError(f"{path}: is too large to be read", slug=slug)
            return file.readall()
    except OSError as error:
        raise DumpError(f"{path}: cannot be read: {error.strerror}", slug=slug) from None


def open_without_blocking(path: str, flags: int) -> int:
    """Opener for ``open``: opening a pipe in place of a file would block forever."""
    return os.open(path, flags | os.O_NONBLOCK)
