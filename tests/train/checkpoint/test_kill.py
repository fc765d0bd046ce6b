"""``kill -9`` at any moment of checkpointing: the newest whole checkpoint always loads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SCRIPT = "tests.train.checkpoint.kill_script"


@pytest.mark.parametrize(
    ("format", "mode", "rounds"),
    [("ckpt", "sync", 50), ("ckpt", "async", 15), ("safetensors", "sync", 10), ("pt", "sync", 10)],
)
def test_the_newest_checkpoint_loads_after_every_kill(
    format: str, mode: str, rounds: int, tmp_path: Path
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.train.checkpoint.kill_script",
            str(tmp_path),
            format,
            mode,
            str(rounds),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["steps"] > rounds
    # The kills hit what they were meant to hit, and their remains do not pile up.
    assert result["inside"] >= rounds // 5
    assert len(result["left"]) <= 5
