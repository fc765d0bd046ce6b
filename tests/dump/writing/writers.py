"""What the tests of the writer share: its implementations, memory to write, a way to stop it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from sonde.dump.writing.python_writer import PythonWriter
from sonde.dump.writing.writer import Writer

try:
    from sonde.dump.writing import _writer as native
except ImportError:
    native = None  # type: ignore[assignment]

GIGABYTE = 1 << 30

Open: TypeAlias = Callable[[int, int], Writer]

needs_native = pytest.mark.skipif(native is None, reason="the native writer is not built")
IMPLEMENTATIONS: dict[str, Open] = {
    "native": lambda threads, budget: native.Writer(threads, budget),
    "native-named": lambda threads, budget: native.Writer(threads, budget, anonymous_files=False),
    "python": PythonWriter,
}
QUEUEING = ("native", "native-named")
"""Those that write in the background."""


def parameters(*names: str) -> list[object]:
    return [
        pytest.param(name, marks=needs_native if name.startswith("native") else ())
        for name in names
    ]


class Payload:
    """Bytes with an address, that can be watched dying."""

    def __init__(self, data: bytes) -> None:
        self.array = np.frombuffer(bytearray(data), dtype=np.uint8) if data else np.zeros(0, "u1")
        self.data = data

    def write(self, writer: Writer, path: Path, header: bytes = b"") -> int:
        return writer.write(str(path), header, self.array.ctypes.data, len(self.data), self)


class Gate:
    """Stops one thread of a writer until it is opened.

    The writer is asked to link a file of another file system, has to copy it, and finds a pipe
    that no process writes to.
    """

    def __init__(self, writer: Writer, here: Path, elsewhere: Path) -> None:
        pipe = elsewhere / "pipe"
        job = writer.write_text(str(pipe), b"")
        writer.wait(job)
        pipe.unlink()
        os.mkfifo(pipe)
        self._pipe = pipe
        assert writer.link(job, str(here / "gate"))

    def open(self) -> None:
        os.close(os.open(self._pipe, os.O_WRONLY))


def names_in(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))
