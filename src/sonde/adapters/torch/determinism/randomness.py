"""What was random in a program: what was removed, what is left, and at which lines.

Forked processes, such as the workers of a DataLoader, report to the process that forked them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sonde.adapters.torch.eager.naming.source_lines import is_user_file
from sonde.adapters.torch.private import frames_from

_MOST_LINES: Final = 1000
"""The limit for one forked process."""
_MOST_BYTES: Final = 2000
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep


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
        if self._descriptor < 0 or self._sent > _MOST_LINES:
            return
        data = line.replace("\n", " ").encode("utf-8", "replace")[:_MOST_BYTES] + b"\n"
        try:
            os.write(self._descriptor, data)
        except OSError:
            self._sent = _MOST_LINES

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


@dataclass(slots=True)
class Randomness:
    """What was removed, and what was detected but could not be removed, each with its count."""

    removed: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    notes: ForkedNotes = field(default_factory=ForkedNotes)

    def note_removed(self, what: str) -> None:
        self._note("removed", what)

    def note_removed_here(self, what: str) -> None:
        """Note ``what`` with the line of user code that runs, if there is one."""
        where = place_of_caller()
        self.note_removed(f"{what} at {where}" if where else what)

    def note_left(self, what: str) -> None:
        self._note("left", what)

    def _note(self, kind: str, what: str) -> None:
        if self.notes.is_forked:
            self.notes.send(f"{kind} {what}")
            return
        found = self.removed if kind == "removed" else self.left
        found[what] = found.get(what, 0) + 1

    def gather(self) -> None:
        """Add the lines of forked processes, marked as a worker's."""
        for line in self.notes.take():
            kind, _, what = line.partition(" ")
            self._note(kind, f"{what}, in a worker")


def place_of_caller() -> str | None:
    """The nearest line outside torch, numpy, Sonde and the standard library; None without one."""
    for frame in frames_from(sys._getframe(1)):
        name = frame.f_code.co_filename
        if is_user_file(name) and not name.startswith(_NUMPY):
            relative = os.path.relpath(name) if os.path.isabs(name) else name
            return f"{name if relative.startswith('..') else relative}:{frame.f_lineno}"
    return None
