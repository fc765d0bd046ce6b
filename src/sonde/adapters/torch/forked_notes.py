"""Lines from processes that were forked from this one, workers of a DataLoader say."""

from __future__ import annotations

import os
import tempfile
from typing import Final

MOST_LINES: Final = 1000
"""Of one process; more would say the same."""
_MOST_BYTES: Final = 2000


class ForkedNotes:
    """A file without a name that forks share. A line is written in one call and so stays whole,
    and one that a worker wrote before it was killed is there."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._writer = self._owner
        self._sent = 0
        with tempfile.NamedTemporaryFile(prefix="sonde-notes-") as file:
            self._descriptor = os.open(file.name, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)

    @property
    def is_forked(self) -> bool:
        """Whether this process is not the one that will read."""
        return os.getpid() != self._owner

    def send(self, line: str) -> None:
        """Write one line, from a forked process; nothing where it cannot be written."""
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
        """Only the owner's: forks may still write."""
        if self._descriptor >= 0 and not self.is_forked:
            os.close(self._descriptor)
            self._descriptor = -1
