"""Exceptions of the program's signal handlers, tested in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("matcher", ["native", "python"])
def test_exceptions_of_signal_handlers_reach_the_program(matcher: str) -> None:
    chosen = "native or not python" if matcher == "native" else "python"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-k", chosen, str(HERE / "interruption_cases.py")],
        capture_output=True,
        text=True,
        cwd=HERE.parents[2],
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
