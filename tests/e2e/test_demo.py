"""``make demo`` does its job on a machine without a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.document(
    89,
    says="tools for acquiring intermediate network data: Data Dump, Print Operator, MindInsight",
    how="`sonde run --dump-to`, `sonde.print`, `sonde debug`",
)
def test_the_demo_finds_the_op_in_the_dump_and_stops_at_it_in_the_debugger(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "examples/demo.py"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "CI": "true", "XDG_RUNTIME_DIR": str(tmp_path)},
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    line = "rainfall.py:30  wetness = torch.log(rain + 1.0)"
    shown, _, debugged = done.stdout.partition("$ sonde debug")
    assert line in shown
    assert "paused (hit) step 7 at Default/network-FlowNet/log-op0" in debugged
    assert "<- makes it" in debugged
    assert line in debugged
    assert "ended from the debugger" in debugged
