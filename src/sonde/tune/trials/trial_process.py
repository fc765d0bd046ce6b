"""The process of one trial, started in its own process group and stopped with all of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from functools import cache
from pathlib import Path

from sonde.core.files.atomic_file import start_file
from sonde.tune.script_side.current import ANSWERS_FILE, REPORTS_FILE, TRIAL_VARIABLE
from sonde.tune.trials.command import Launch
from sonde.tune.trials.trial_output import OUTPUT_FILE

STOP_SECONDS = 3.0
"""How long a trial may take to end after SIGTERM, before it is killed."""


class TrialProcess:
    """A running command. Must be started and polled by one thread that outlives it."""

    def __init__(self, launch: Launch, directory: Path) -> None:
        for name in (REPORTS_FILE, ANSWERS_FILE):
            (directory / name).unlink(missing_ok=True)
        with start_file(directory / OUTPUT_FILE) as output:
            self._process = subprocess.Popen(
                [*_guard(), *launch.words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **launch.environment},
                start_new_session=True,
            )
        self.started = time.monotonic()
        self._kill_at: float | None = None
        self._is_swept = False
        self._ended: float | None = None

    @property
    def seconds(self) -> float:
        """How long it has run, or ran."""
        return (self._ended or time.monotonic()) - self.started

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        code = self._process.poll()
        if code is None and self._kill_at is not None and time.monotonic() > self._kill_at:
            self._signal(signal.SIGKILL)
        if code is not None and not self._is_swept:
            self._is_swept = True
            self._ended = time.monotonic()
            self._signal(signal.SIGKILL)  # processes that it left behind
        return code

    def stop(self) -> None:
        """Send SIGTERM; a later `poll` kills it if it does not end."""
        if self._kill_at is None:
            self._kill_at = time.monotonic() + STOP_SECONDS
            self._signal(signal.SIGTERM)

    def end(self) -> None:
        """Stop it and wait for its end; kill it if it does not end in time."""
        self.stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill it and wait for its end."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def kill_leftovers(directory: Path) -> int:
    """Kill the processes of the trial in that directory; returns their number.

    A search that is killed cannot stop its trials. Every process of a trial has the trial's
    directory in its environment, by which it is found.
    """
    mark = f"{TRIAL_VARIABLE}={directory}".encode()
    killed = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if int(entry.name) == os.getpid():
                continue
            variables = (entry / "environ").read_bytes().split(b"\0")
            if any(one == mark or one.startswith(mark + b"/") for one in variables):
                os.kill(int(entry.name), signal.SIGKILL)
                killed += 1
    return killed


def new_directory(parent: Path, number: int) -> Path:
    """An unused directory for a trial, such as ``trial_0007``."""
    parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, 10_000):
        suffix = "" if attempt == 1 else f"-{attempt}"
        place = parent / f"trial_{number:04d}{suffix}"
        with contextlib.suppress(FileExistsError):
            place.mkdir()
            return place
    raise AssertionError(f"{parent} is full of trials of the same number")


@cache
def _guard() -> tuple[str, ...]:
    """The words before a command that make it die with the search, if the system has them."""
    found = shutil.which("setpriv")
    if found is None:
        return ()
    words = (found, "--pdeathsig", "KILL", "--")
    works = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    return words if works else ()
