"""Thousands of damaged and hostile files: each is read or refused, and nothing else happens.

Each kind is read in a process of its own, which may use 700 MB more than it starts with: a claimed
size that is believed ends it. Seeds are fixed; the whole takes well under a minute.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.kinds import KINDS

ROOT = Path(__file__).parents[2]
COUNTS = {"pb": 2500, "ckpt": 1500, "torch": 1500, "dump": 1000}
OTHERS = 1500
MAY_GROW = 48 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_read_or_refused_with_their_name(kind: str, tmp_path: Path) -> None:
    count = COUNTS.get(kind, OTHERS)
    words = (
        "-W",
        "ignore",
        "-m",
        "tests.fuzz.reading",
        kind,
        str(count),
        "20261115",
        str(tmp_path),
    )
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["read"] + told["refused"] == count
    assert told["open"] == 0
    assert told["grown"] < MAY_GROW
