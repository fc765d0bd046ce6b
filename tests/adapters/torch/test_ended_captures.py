"""Runs ended_capture_cases.py in a process of its own: what other tests imported and left keeps
objects alive that a program would not have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_an_ended_capture_is_freed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += ["--basetemp", str(tmp_path / "cases"), str(HERE / "ended_capture_cases.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parents[2])
    assert done.returncode == 0, done.stdout[-4000:]
