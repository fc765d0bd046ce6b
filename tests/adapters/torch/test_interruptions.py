"""Exceptions of the program's signal handlers, tested in a process of their own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# A slow disk would take longer for the files than the trainings take. Without this directory, the
# files are written where pytest writes them.
MEMORY = Path("/dev/shm")


@pytest.mark.parametrize("matcher", ["native", "python"])
def test_exceptions_of_signal_handlers_reach_the_program(matcher: str) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        run_cases(matcher, Path(directory))


def run_cases(matcher: str, directory: Path) -> None:
    chosen = "native or not python" if matcher == "native" else "python"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += ["--basetemp", str(directory / "cases")]
    done = subprocess.run(
        [*command, "-k", chosen, str(HERE / "interruption_cases.py")],
        capture_output=True,
        text=True,
        cwd=HERE.parents[2],
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
