"""Two ranks: each resumes its own state, and both from the same step."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def run_two_ranks(directory: Path, mode: str) -> list[Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = [sys.executable, "-m", "tests.train.rank_script"]
    ranks = [
        subprocess.Popen(
            [*script, str(rank), port, str(directory), mode],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    results = []
    for process in ranks:
        out, err = process.communicate(timeout=120)
        if mode == "die":
            assert process.returncode != 0
            continue
        assert process.returncode == 0, err
        results.append(json.loads(out))
    return results


@pytest.mark.slow
def test_two_ranks_resume_bit_for_bit_from_the_newest_step_both_have(tmp_path: Path) -> None:
    whole = run_two_ranks(tmp_path, "whole")
    run_two_ranks(tmp_path, "die")
    saved = sorted(path.name for path in tmp_path.iterdir())
    assert "run-2_2.ckpt" in saved
    assert "run_rank1-2_1.ckpt" in saved
    assert "run_rank1-2_2.ckpt" not in saved
    resumed = run_two_ranks(tmp_path, "resume")
    for rank in range(2):
        assert list(resumed[rank]["losses"]) == [str(step) for step in range(6, 13)]
        expected = {str(step): whole[rank]["losses"][str(step)] for step in range(6, 13)}
        assert resumed[rank]["losses"] == expected
        assert resumed[rank]["weights"] == whole[rank]["weights"]
    assert whole[0]["losses"] != whole[1]["losses"]
