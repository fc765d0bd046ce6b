"""Runs the scripts of ``sonde compare --run``, each under ``sonde run``, into a dump."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sonde.compare.options import CompareError
from sonde.core.errors import DumpError, UsageError
from sonde.core.files.atomic_file import start_file
from sonde.core.selection import StepSet
from sonde.dump.reader import Dump
from sonde.logs import say

DEFAULT_STEPS = "0-1"
_SHOWN_LINES = 15
_LOOK_SECONDS = 0.2
_GRACE_SECONDS = 20.0


def run_into(command: str, directory: Path, steps: StepSet) -> Path:
    """Run a script, dump its steps, and stop it after the last of them.

    CompareError if it fails before it finished a step; the end of its output is printed.
    """
    words = _words(command)
    shutil.rmtree(directory, ignore_errors=True)  # From an earlier comparison.
    directory.mkdir(parents=True)
    log = directory / "output.txt"
    dump = directory / "dump"
    ours = (
        sys.executable,
        "-m",
        "sonde",
        "run",
        "--dump-to",
        str(dump),
        "--dump-steps",
        str(steps),
    )
    with start_file(log) as output:
        # In its own process group, so that child processes of the script are stopped with it.
        process = subprocess.Popen(
            [*ours, "--net-name", "run", *words],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            was_stopped = _wait(process, dump, steps)
        finally:
            if process.poll() is None:
                _stop(process)
    if not _steps_in(dump):
        _raise_failure(command, process.returncode, log)
    if process.returncode and not was_stopped:
        ended = f"{command!r} ended with code {process.returncode}"
        say(f"{ended}; its finished steps are compared")
    return dump


def _words(command: str) -> Sequence[str]:
    """The script and its arguments, without a leading ``python``."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--run {command!r}: {error}", slug="usage") from None
    if words and Path(words[0]).name.startswith("python"):
        words = words[1:]
    if not words:
        raise UsageError("--run needs a script and its arguments, in quotes", slug="usage")
    if not words[0].startswith("-") and not Path(words[0]).exists():
        raise UsageError(f"--run {command!r}: file {words[0]} does not exist", slug="usage")
    return words


def _wait(process: subprocess.Popen[bytes], dump: Path, steps: StepSet) -> bool:
    """Wait for the end of the script, or stop it after the last step; whether it was stopped."""
    last = steps.last
    while process.poll() is None:
        if last is not None and last in _steps_in(dump):
            _stop(process)
            return True
        time.sleep(_LOOK_SECONDS)
    return False


def _steps_in(dump: Path) -> tuple[int, ...]:
    """The finished steps: those whose directories and graphs have their final names."""
    try:
        found = Dump(dump)
    except DumpError:
        return ()
    known = found.graph_ids()
    return tuple(sorted({each.step for each in found.step_dirs() if each.graph_id in known}))


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(_GRACE_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue


def _raise_failure(command: str, code: int, log: Path) -> None:
    for line in log.read_text("utf-8", "replace").splitlines()[-_SHOWN_LINES:]:
        print(line, file=sys.stderr)
    raise CompareError(
        f"{command!r} ended with code {code} and left no finished step to compare; a step ends "
        "with an optimizer's step()",
        slug="compare-run",
    )
