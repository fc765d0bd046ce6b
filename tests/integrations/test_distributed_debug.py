"""The page about numerics in torch's debug server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integrations.running import PROGRAMS

pytest.importorskip("jinja2")
pytest.importorskip("aiohttp")
pytest.importorskip("tabulate")


@pytest.mark.slow
def test_the_page_has_the_signals_of_every_rank_and_the_captured_steps(tmp_path: Path) -> None:
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = subprocess.run(
        [sys.executable, "-m", *launch, str(PROGRAMS / "debug_server.py"), "fault"],
        cwd=tmp_path,
        env={**os.environ, "TORCHELASTIC_USE_AGENT_STORE": "True"},
        capture_output=True,
        text=True,
        timeout=800,
    )
    (line,) = [each for each in ended.stdout.splitlines() if each.startswith('{"page"')]
    page = json.loads(line)["page"]
    assert '<a href="/sonde">Numerics</a>' in page
    assert '<a href="http://sonde.example:1234">' in page
    assert "<td>0</td><td>7</td><td>1</td>" in page
    assert "<td>1</td><td>7</td><td>1</td>" in page
    assert f"sonde replay {tmp_path}/sonde_steps/step_4.rank_0 --debug" in page
