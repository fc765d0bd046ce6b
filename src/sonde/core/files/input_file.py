"""Reads the small files that users write or name: settings, watchpoints, maps, indexes."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 32 << 20
"""More than any such file has; a device or a wrong file is not read into memory."""


def read_input(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The contents of a file or a pipe; OSError, with a reason, if it is longer than allowed."""
    with path.open("rb") as stream:
        data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        reason = f"it is longer than {most_bytes >> 20} MB"
        raise OSError(errno.EFBIG, reason, os.fspath(path))
    return data
