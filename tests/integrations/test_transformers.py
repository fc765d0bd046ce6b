"""``SondeCallback`` in transformers' Trainer: same weights, the Trainer's steps, its log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.integrations.running import in_whole, run

import sonde

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
PROGRAM = "transformers_trainer.py"
pytestmark = pytest.mark.slow


@in_whole
@pytest.mark.parametrize("words", [(), ("bf16",), ("checkpointing",), ("peft",)])
def test_a_training_is_bit_identical_and_a_nan_is_found_in_the_trainers_step(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    ended = run(PROGRAM, "fault", *words, cwd=tmp_path)
    results = ended.results
    assert results["bare"] == results["observed"]
    found = [(each["rule"], each["step"]) for each in results["findings"]]
    ops = [] if "checkpointing" in words else [("non-finite-op", 2)]
    assert found == [("non-finite-loss", 2), *ops]
    assert ended.said[0].startswith("sonde: step 2 (the Trainer's step 3): the loss is nan; ")
    assert "results.py:16: return torch.log(1 - 2 * bad.float()).sum()" in ended.said[0]
    assert "in micro-batch 0 of 2" in ended.said[0]
    assert "row 1 of 4 rows" in ended.said[0]
    signals = sonde.signals(tmp_path / "sonde_steps")
    assert signals["step"].tolist() == [0, 1, 2, 3]
    assert signals["micro_batches"].tolist() == [2, 2, 2, 2]


def test_the_finding_is_in_the_trainers_log_beside_the_loss_that_the_filter_hides(
    tmp_path: Path,
) -> None:
    results = run(PROGRAM, "fault", cwd=tmp_path).results
    assert results["bare"] == results["observed"]
    log = results["log"]
    texts = [(each["step"], each["sonde_rule"]) for each in log if "sonde_finding" in each]
    assert texts == [(3, "non-finite-loss"), (4, "non-finite-op")]
    counts = [(each["step"], each["sonde_findings"]) for each in log if "sonde_findings" in each]
    assert counts == [(3, 1), (4, 2)]
    losses = [each["loss"] for each in log if "loss" in each]
    assert len(losses) == 4
    assert np.isfinite(losses).all(), "the Trainer's filter hides the NaN"
    assert losses == [each for each in results["bare_losses"] if each is not None]


@in_whole
@pytest.mark.filterwarnings("ignore")  # of the libraries that TensorBoard uses
def test_the_trackers_of_the_trainer_get_the_findings(tmp_path: Path) -> None:
    variables = {
        "REPORT_TO": "tensorboard,wandb",
        "TENSORBOARD_LOGGING_DIR": "events",
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
    }
    ended = run(PROGRAM, "fault", cwd=tmp_path, variables=variables)
    assert ended.results["bare"] == ended.results["observed"]
    (path,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    kept = f"captured step: {(tmp_path / 'sonde_steps').as_uri()}/step_2.rank_0".encode()
    title = b"sonde: non-finite-loss in step 2"
    assert title in path.read_bytes()
    assert kept in path.read_bytes()
    assert b"sonde-step" not in path.read_bytes(), "weights and data are not sent"
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(tmp_path / "events")).Reload()
    texts = [
        each.tensor_proto.string_val[0] for each in found.Tensors("sonde/finding/text_summary")
    ]
    assert len(texts) == 2
    assert title in texts[0]
    assert kept in texts[0]
    assert b"sonde: non-finite-op in step 2" in texts[1]


@in_whole
def test_stop_ends_the_training_in_the_trainers_way_without_the_bad_update(tmp_path: Path) -> None:
    ended = run(PROGRAM, "fault", "stop", cwd=tmp_path)
    assert ended.results["steps"] == 3
    assert ended.results["observed"] != ended.results["bare"]
    assert sonde.signals(tmp_path / "sonde_steps")["is_skipped"].tolist() == [0, 0, 1]


@in_whole
def test_a_healthy_training_has_no_finding(tmp_path: Path) -> None:
    ended = run(PROGRAM, cwd=tmp_path)
    assert ended.results["bare"] == ended.results["observed"]
    assert ended.results["findings"] == []
    assert ended.said == [
        "sonde: no finding in 4 steps",
        "sonde: guarded 4 steps, nothing triggered; sonde show sonde_steps shows their signals",
    ]


@in_whole
def test_sonde_run_gives_the_same_step_numbers_without_the_callback(tmp_path: Path) -> None:
    ended = run(PROGRAM, "fault", "bare", cwd=tmp_path, command=("-m", "sonde", "run", "--guard"))
    assert ended.said[0].startswith("sonde: step 2 (the Trainer's step 3): the loss is nan; ")
    assert sonde.signals(tmp_path / "sonde_steps")["step"].tolist() == [0, 1, 2, 3]


@in_whole
def test_a_resumed_training_goes_on_counting_as_the_trainer_does(tmp_path: Path) -> None:
    ended = run(PROGRAM, "fault", "resume", cwd=tmp_path)
    assert ended.results["bare"] == ended.results["observed"]
    assert ended.said[0].startswith("sonde: step 2 (the Trainer's step 3): the loss is nan; ")
    assert sonde.signals(tmp_path / "sonde_steps")["step"].tolist() == [2, 3]
    assert {each["step"] for each in ended.results["findings"]} == {2}


@in_whole
def test_a_trainer_of_trl_takes_the_callback(tmp_path: Path) -> None:
    ended = run("trl_trainer.py", cwd=tmp_path)
    assert ended.results["bare"] == ended.results["observed"]
    assert [(each["rule"], each["step"]) for each in ended.results["findings"]] == [
        ("non-finite-loss", 1)
    ]
