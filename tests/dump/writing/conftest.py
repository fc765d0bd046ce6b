"""Fixtures of the writer's tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.dump.writing.writers import IMPLEMENTATIONS, QUEUEING, Open, parameters

from sonde.dump.writing.writer import Writer

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture(params=parameters(*IMPLEMENTATIONS))
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens writers of each implementation, and closes them."""
    yield from _opening(request.param)


@pytest.fixture(params=parameters(*QUEUEING))
def queued(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens writers of those implementations that write in the background, and closes them."""
    yield from _opening(request.param)


def _opening(name: str) -> Iterator[Open]:
    writers: list[Writer] = []

    def open_one(threads: int, budget_bytes: int) -> Writer:
        writers.append(IMPLEMENTATIONS[name](threads, budget_bytes))
        return writers[-1]

    yield open_one
    for writer in writers:
        writer.close()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system than ``tmp_path``."""
    if (
        not os.access(SHARED_MEMORY, os.W_OK)
        or SHARED_MEMORY.stat().st_dev == tmp_path.stat().st_dev
    ):
        pytest.skip("needs a second file system")
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as directory:
        yield Path(directory)
        # A test that failed has left its gate shut, and closing the writer would wait for it.
        for pipe in filter(Path.is_fifo, Path(directory).iterdir()):
            with suppress(OSError):
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
