"""Keras 3 on the torch backend, under ``sonde run``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.integrations.running import run

import sonde

if find_spec("keras") is None:  # Importing it would import a backend.
    pytest.skip("Keras is not installed", allow_module_level=True)
pytestmark = pytest.mark.slow
GUARD = ("-m", "sonde", "run", "--guard")


@pytest.mark.parametrize(("word", "steps"), [("", 16), ("accumulate", 8), ("compile", 16)])
def test_steps_are_the_iterations_of_the_optimizer(word: str, steps: int, tmp_path: Path) -> None:
    ended = run("keras_fit.py", word, cwd=tmp_path, command=GUARD)
    assert ended.results == run("keras_fit.py", word, cwd=tmp_path).results
    assert ended.results["iterations"] == steps
    signals = sonde.signals(tmp_path / "sonde_steps")
    assert signals["step"].tolist() == list(range(steps))
    assert signals["micro_batches"].tolist() == [2 if word == "accumulate" else 1] * steps
    assert signals["learning_rate"].tolist() == pytest.approx([1e-2] * steps)
    assert (signals["update_ratio"] > 0).all()
    assert ended.stderr.splitlines() == [
        f"sonde: guarded {steps} steps, nothing triggered; sonde show sonde_steps shows their "
        "signals"
    ]


def test_the_bad_batch_is_found_in_its_step(tmp_path: Path) -> None:
    ended = run("keras_fit.py", "fault", cwd=tmp_path, command=GUARD)
    assert ended.results == run("keras_fit.py", "fault", cwd=tmp_path).results
    assert ended.said[0].startswith("sonde: step 4: the loss is nan; ")
    overflow = ("-m", "sonde", "run", "--overflow")
    ended = run("keras_fit.py", "fault", cwd=tmp_path, command=overflow)
    (line,) = [each for each in ended.said if "contains 4 NaN of 16 values" in each]
    assert "in step 4, forward" in line


def test_a_skipped_update_counts_and_leaves_the_weights(tmp_path: Path) -> None:
    ended = run("keras_fit.py", "fault", cwd=tmp_path, command=(*GUARD, "--on-trigger", "skip"))
    assert not run("keras_fit.py", "fault", cwd=tmp_path).results["is_finite"]
    assert ended.results["iterations"] == 16
    skipped = sonde.signals(tmp_path / "sonde_steps")["is_skipped"].tolist()
    assert [step for step, each in enumerate(skipped) if each] == [4, 12]
    assert ended.results["is_finite"]


def test_a_training_that_goes_on_is_numbered_on(tmp_path: Path) -> None:
    run("keras_fit.py", "save", cwd=tmp_path)
    ended = run("keras_fit.py", "load", cwd=tmp_path, command=GUARD)
    signals = sonde.signals(tmp_path / "sonde_steps")
    assert signals["step"].tolist() == list(range(16, 32)), ended.stderr
    stats = ("-m", "sonde", "run", "--stats", "--dump-to", "out", "--dump-steps", "30-31")
    assert run("keras_fit.py", "load", cwd=tmp_path, command=stats).code == 0
    assert sonde.Dump(tmp_path / "out").steps() == (30, 31)


def test_a_healthy_training_has_no_diagnosis(tmp_path: Path) -> None:
    ended = run("keras_fit.py", cwd=tmp_path, command=("-m", "sonde", "diagnose"))
    assert "no finding in 16 steps" in ended.stdout
    assert ended.code == 0
