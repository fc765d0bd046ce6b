"""Receives lines from forked processes, such as the workers of a DataLoader."""

from __future__ import annotations

import os
import tempfile
from typing import Final

MOST_LINES: Final = 1000
"""The limit for one process."""
_MOST_BYTES: Final = 2000


class ForkedNotes:
    """An unnamed file that forked processes share. A line is written in one call, so that lines do
    not mix, and is kept even if its worker is killed afterwards."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._writer = self._owner
        self._sent = 0
        with tempfile.NamedTemporaryFile(prefix="sonde-notes-") as file:
            self._descriptor = os.open(file.name, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the one that reads."""
        return os.getpid() != self._owner

    def send(self, line: str) -> None:
        """Write one line, in a forked process; a line that cannot be written is dropped."""
        if os.getpid() != self._writer:
            self._writer, self._sent = os.getpid(), 0
        self._sent += 1
        if self._descriptor < 0 or self._sent > MOST_LINES:
            return
        data = line.replace("\n", " ").encode("utf-8", "replace")[:_MOST_BYTES] + b"\n"
        try:
            os.write(self._descriptor, data)
        except OSError:
            self._sent = MOST_LINES

    def take(self) -> list[str]:
        """All lines so far."""
        if self._descriptor < 0:
            return []
        size = os.fstat(self._descriptor).st_size
        return os.pread(self._descriptor, size, 0).decode("utf-8", "replace").splitlines()

    def close(self) -> None:
        """Close the file in the owner; forks may still write to theirs."""
        if self._descriptor >= 0 and not self.is_forked:
            os.close(self._descriptor)
            self._descriptor = -1
