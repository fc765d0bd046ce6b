"""``attach`` to an engine of Ignite."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integrations.running import of_the_last_rank, run, run_two_ranks

import sonde

pytest.importorskip("ignite")
pytestmark = pytest.mark.slow


def test_a_training_is_bit_identical_and_a_nan_is_found(tmp_path: Path) -> None:
    ended = run("ignite_engine.py", "fault", cwd=tmp_path)
    results = ended.results
    assert results["bare"] == results["observed"]
    found = [(each["rule"], each["step"]) for each in results["findings"]]
    assert found == [("non-finite-loss", 2), ("non-finite-op", 2)]
    assert ended.said[0].startswith("sonde: step 2 (Ignite's iteration 6): the loss is nan; ")
    assert results["metrics"] == {"sonde_findings": 2}
    assert sonde.signals(tmp_path / "sonde_steps")["step"].tolist() == [0, 1, 2, 3]


def test_stop_terminates_the_engine(tmp_path: Path) -> None:
    assert run("ignite_engine.py", "fault", "stop", cwd=tmp_path).results["steps"] == 6


def test_an_exception_is_kept_and_still_leaves_the_engine(tmp_path: Path) -> None:
    results = run("ignite_engine.py", "raise", cwd=tmp_path).results
    assert {"run", "update"} <= {*results["raised"]}
    assert results["findings"][0]["rule"] == "exception"


def test_sonde_run_counts_the_same_steps_and_no_evaluation(tmp_path: Path) -> None:
    command = ("-m", "sonde", "run", "--guard")
    ended = run("ignite_engine.py", "fault", "bare", cwd=tmp_path, command=command)
    assert ended.said[0].startswith("sonde: step 2 (Ignite's iteration 6): the loss is nan; ")
    assert sonde.signals(tmp_path / "sonde_steps")["step"].tolist() == [0, 1, 2, 3]


def test_engines_of_two_ranks_terminate_together(tmp_path: Path) -> None:
    results, _ = run_two_ranks("ignite_engine.py", "fault", "last", "stop", cwd=tmp_path)
    assert [each["steps"] for each in results] == [6, 6]
    assert of_the_last_rank(results)
