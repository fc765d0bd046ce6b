"""Runs programs under the debugger, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


def environment(port: int | None, **more: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SONDE_", "MS_DEBUGGER", "ENABLE_MS"))
    }
    if port is not None:
        kept["SONDE_DEBUGGER_PORT"] = str(port)
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def start(program: str, *arguments: object, port: int | None, **more: str) -> subprocess.Popen[str]:
    """``sonde run`` of a program, connecting to ``port``."""
    words = [str(PROGRAMS / program), *map(str, arguments)]
    return subprocess.Popen(
        [sys.executable, "-m", "sonde", "run", *words],
        env=environment(port, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Its output when it has ended."""
    try:
        return process.communicate(timeout=120)
    finally:
        process.kill()


def plain(program: str, *arguments: object) -> str:
    """What the program prints without Sonde."""
    return subprocess.run(
        [sys.executable, str(PROGRAMS / program), *map(str, arguments)],
        env=environment(None),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
