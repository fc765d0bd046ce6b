"""Processes that a test has started and not ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet


@contextmanager
def ended_on_failure() -> Iterator[None]:
    """What is started inside, and still runs when something is raised, is ended: a test that
    failed may be run again, and one that passes has to end by itself what it started."""
    started: WeakSet[subprocess.Popen[Any]] = WeakSet()
    begin = subprocess.Popen.__init__

    def noted(process: subprocess.Popen[Any], *words: Any, **more: Any) -> None:
        begin(process, *words, **more)
        started.add(process)

    subprocess.Popen.__init__ = noted  # type: ignore[method-assign]
    try:
        yield
    except BaseException:
        for process in list(started):
            _end(process)
        raise
    finally:
        subprocess.Popen.__init__ = begin  # type: ignore[method-assign]


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those they have; none where /proc is none."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [each for child in map(int, children) for each in (child, *descendants(child))]


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        for pid in descendants(process.pid):  # They may hold the other ends of its pipes.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait(30)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
