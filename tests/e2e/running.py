"""Real processes: programs run bare and under Sonde."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.warm_python.starting import warm_python

PROGRAMS = Path(__file__).parent / "programs"


def environment(**more: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SONDE_", "MINDSPORE_", "MS_"))
    }
    return {**kept, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", **more}


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [warm_python(), *words],
        capture_output=True,
        text=True,
        timeout=800,
        env=environment(**more),
        check=False,
    )


def bare(program: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return run(str(PROGRAMS / program), *arguments, **more)


def observed(
    options: list[str], program: str, *arguments: str, **more: str
) -> subprocess.CompletedProcess[str]:
    return run("-m", "sonde", "run", *options, str(PROGRAMS / program), *arguments, **more)
