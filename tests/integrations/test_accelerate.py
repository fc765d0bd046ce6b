"""``SondeTracker`` of accelerate, and ``accelerate launch`` of a script under ``sonde run``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integrations.running import (
    OFFLINE,
    PROGRAMS,
    in_whole,
    logged_texts,
    of_the_last_rank,
    run,
    run_two_ranks,
)

import sonde

pytest.importorskip("accelerate")
pytestmark = pytest.mark.slow


def test_a_training_is_bit_identical_and_a_nan_is_found(tmp_path: Path) -> None:
    ended = run("accelerate_loop.py", "fault", cwd=tmp_path)
    results = ended.results
    assert results["bare"] == results["observed"]
    found = [(each["rule"], each["step"]) for each in results["findings"]]
    assert found == [("non-finite-loss", 2), ("non-finite-op", 2)]
    assert sonde.signals(tmp_path / "sonde_steps")["micro_batches"].tolist() == [2, 2, 2, 2]


@pytest.mark.filterwarnings("ignore")  # of the libraries that TensorBoard uses
def test_findings_are_in_the_event_file_of_the_accelerator(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    ended = run("accelerate_loop.py", "fault", "tensorboard", cwd=tmp_path)
    assert ended.results["bare"] == ended.results["observed"]
    texts = logged_texts(tmp_path / "events" / "tests")
    assert [each.partition(b"**  ")[0] for each in texts] == [
        b"**ERROR sonde: non-finite-loss in step 2",
        b"**ERROR sonde: non-finite-op in step 2",
    ]


def test_stop_tells_the_loop(tmp_path: Path) -> None:
    assert run("accelerate_loop.py", "fault", "stop", cwd=tmp_path).results["steps"] == 6


def test_all_ranks_are_guarded_and_stop_together(tmp_path: Path) -> None:
    results, _ = run_two_ranks("accelerate_loop.py", "fault", "last", "stop", cwd=tmp_path)
    for rank in (0, 1):
        assert sonde.signals(tmp_path / "sonde_steps", rank)["step"].tolist() == [0, 1, 2]
    assert [each["steps"] for each in results] == [6, 6]
    assert of_the_last_rank(results)


def started(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=cwd,
        env={**os.environ, **OFFLINE},
        capture_output=True,
        text=True,
        timeout=800,
    )


def test_accelerate_launch_of_a_script_under_sonde_run(tmp_path: Path) -> None:
    launch = ("accelerate.commands.launch", "--cpu", "-m", "sonde", "run", "--guard")
    ended = started(*launch, str(PROGRAMS / "accelerate_loop.py"), "fault", "bare", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "sonde: step 2: the loss is nan; it began at Default/" in ended.stderr


@in_whole
def test_a_trainer_on_two_ranks(tmp_path: Path) -> None:
    results, said = run_two_ranks("transformers_trainer.py", "fault", cwd=tmp_path)
    assert "(the Trainer's step 2): the loss is nan" in said
    for rank in (0, 1):
        signals = sonde.signals(tmp_path / "sonde_steps", rank)
        assert signals["step"].tolist() == [0, 1, 2, 3]
        assert signals["micro_batches"].tolist() == [2, 2, 2, 2]
    assert len({each[name] for each in results for name in ("bare", "observed")}) == 1


@in_whole
def test_ranks_of_a_trainer_stop_together_if_one_has_a_bad_batch(tmp_path: Path) -> None:
    results, _ = run_two_ranks("transformers_trainer.py", "fault", "stop", cwd=tmp_path)
    assert [each["steps"] for each in results] == [2, 2]
    assert sorted(len(each["findings"]) > 0 for each in results) == [False, True]
