"""Two ranks: each resumes its own state, and both from the same step."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run_two_ranks(directory: Path) -> list[Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = [sys.executable, "-m", "tests.train.rank_script"]
    ranks = [
        subprocess.Popen(
            [*script, str(rank), port, str(directory)],
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
        assert process.returncode == 0, err
        results.append(json.loads(out))
    return results


def test_two_ranks_resume_bit_for_bit_from_the_newest_step_both_have_and_stop_together(
    tmp_path: Path,
) -> None:
    results = run_two_ranks(tmp_path)
    saved = results[0]["saved"]
    assert "run-2_2.ckpt" in saved
    assert "run_rank1-2_1.ckpt" in saved
    assert "run_rank1-2_2.ckpt" not in saved
    for result in results:
        whole, resumed = result["whole"], result["resumed"]
        assert list(resumed["losses"]) == [str(step) for step in range(6, 13)]
        assert resumed["losses"].items() <= whole["losses"].items()
        assert resumed["weights"] == whole["weights"]
        assert list(result["stopped"]["losses"]) == ["1"]
    assert results[0]["whole"]["losses"] != results[1]["whole"]["losses"]
