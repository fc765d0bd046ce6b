"""Runs programs under the debugger, in processes of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.warm_python.starting import warm_python

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


def start(
    program: str, *arguments: object, port: int | None, python: str | None = None, **more: str
) -> subprocess.Popen[str]:
    """``sonde run`` of a program, connecting to ``port``."""
    words = [str(PROGRAMS / program), *map(str, arguments)]
    return subprocess.Popen(
        [python or warm_python(), "-m", "sonde", "run", *words],
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
        [warm_python(), str(PROGRAMS / program), *map(str, arguments)],
        env=environment(None),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
