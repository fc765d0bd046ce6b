"""``sonde run --log-to``: what real trackers have, each in its offline mode."""

from __future__ import annotations

import json
import sqlite3
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.running import Ended, run

pytestmark = pytest.mark.slow
SERIES = ["findings", "grad_norm", "learning_rate", "loss", "update_ratio", "weight_norm"]


def log_to(tracker: str, cwd: Path, *words: str, options: tuple[str, ...] = ()) -> Ended:
    if find_spec(tracker) is None:
        pytest.skip(f"{tracker} is not installed")
    variables = {
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "MLFLOW_TRACKING_URI": f"sqlite:///{cwd}/mlflow.db",
        "TRACKIO_DIR": str(cwd / "trackio"),
    }
    command = ("-m", "sonde", "run", *options, "--log-to", tracker)
    return run("plain_loop.py", "fault", *words, cwd=cwd, command=command, variables=variables)


def wandb_file(cwd: Path) -> bytes:
    (path,) = (cwd / "wandb").glob("offline-run-*/*.wandb")
    return path.read_bytes()


def test_wandb_has_the_series_the_alert_and_the_captured_step(tmp_path: Path) -> None:
    ended = log_to("wandb", tmp_path)
    assert ended.results == run("plain_loop.py", "fault", cwd=tmp_path).results
    data = wandb_file(tmp_path)
    for name in SERIES:
        assert f"sonde/{name}".encode() in data
    assert b"sonde: non-finite-loss in step 4" in data
    assert b"results.py:16" in data
    assert f"captured step: {(tmp_path / 'sonde_steps').as_uri()}/step_4.rank_0".encode() in data
    assert b"sonde-step" in data


def test_a_run_of_wandb_that_the_program_opened_is_used_and_its_steps_stay(tmp_path: Path) -> None:
    assert log_to("wandb", tmp_path, "own").results["steps"] == 8
    assert b"sonde: non-finite-loss in step 4" in wandb_file(tmp_path)


def test_findings_of_a_diagnosis_are_alerts_too(tmp_path: Path) -> None:
    ended = log_to("wandb", tmp_path, options=("--diagnose",))
    assert ended.code == 1
    assert b"sonde: non-finite-op in step 4" in wandb_file(tmp_path)
    assert not (tmp_path / "sonde_steps").exists()


@pytest.mark.filterwarnings("ignore")  # of the libraries that MLflow uses
def test_mlflow_has_the_series_the_finding_and_the_captured_step(tmp_path: Path) -> None:
    ended = log_to("mlflow", tmp_path)
    assert ended.results == run("plain_loop.py", "fault", cwd=tmp_path).results
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.get_experiment_by_name("plain_loop")
    assert experiment is not None
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED"
    assert sorted(found.data.metrics) == [f"sonde/{name}" for name in SERIES]
    history = client.get_metric_history(found.info.run_id, "sonde/grad_norm")
    assert [each.step for each in history] == list(range(8))
    assert found.data.tags["sonde.finding.1"].startswith("ERROR sonde: non-finite-loss in step 4: ")
    kept = client.list_artifacts(found.info.run_id, "sonde/step_4.rank_0")
    assert "sonde/step_4.rank_0/manifest.json" in [each.path for each in kept]


@pytest.mark.filterwarnings("ignore")  # of the libraries that MLflow uses
def test_findings_of_a_second_training_in_a_run_of_mlflow_are_added(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient

    from sonde.integrations.trackers.alerts import Alert
    from sonde.integrations.trackers.mlflow import MlflowTracker

    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    number = client.create_experiment("two", artifact_location=(tmp_path / "files").as_uri())
    run_id = client.create_run(number).info.run_id
    for title in ("first", "second"):
        tracker = MlflowTracker(run_id, is_own=False, client=client)
        tracker.alert(Alert(title, "text", "ERROR"))
    tags = client.get_run(run_id).data.tags
    assert tags["sonde.finding.1"] == "ERROR first: text"
    assert tags["sonde.finding.2"] == "ERROR second: text"
    texts = next((tmp_path / "files").rglob("findings.txt")).read_text()
    assert texts == "ERROR first: text\n\nERROR second: text"


def test_trackio_has_the_series_the_alert_and_the_captured_step(tmp_path: Path) -> None:
    ended = log_to("trackio", tmp_path)
    assert ended.results == run("plain_loop.py", "fault", cwd=tmp_path).results

    def rows(query: str) -> list[Any]:
        with sqlite3.connect(tmp_path / "trackio" / "plain_loop.db") as base:
            return base.execute(query).fetchall()

    steps = rows("select step, metrics from metrics order by step")
    assert [each[0] for each in steps] == list(range(8))
    assert sorted(json.loads(steps[0][1])) == [f"sonde/{name}" for name in SERIES]
    (alert,) = rows("select title, level, step from alerts")
    assert alert == ("sonde: non-finite-loss in step 4", "error", 4)
    assert rows("select name, type from artifacts") == [("step_4.rank_0", "sonde-step")]


@pytest.mark.filterwarnings("ignore")  # of the libraries that TensorBoard uses
def test_tensorboard_has_the_series_and_the_finding(tmp_path: Path) -> None:
    ended = log_to("tensorboard", tmp_path)
    assert ended.results == run("plain_loop.py", "fault", cwd=tmp_path).results
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(tmp_path / "runs" / "sonde_plain_loop")).Reload()
    assert sorted(found.Tags()["scalars"]) == [f"sonde/{name}" for name in SERIES]
    assert [each.step for each in found.Scalars("sonde/grad_norm")] == list(range(8))
    (text,) = found.Tensors("sonde/finding/text_summary")
    (shown,) = text.tensor_proto.string_val
    assert shown.startswith(b"**ERROR sonde: non-finite-loss in step 4**")
    assert f"captured step: {(tmp_path / 'sonde_steps').as_uri()}/step_4.rank_0".encode() in shown


def test_a_dump_alone_has_nothing_to_log(tmp_path: Path) -> None:
    ended = log_to("wandb", tmp_path, options=("--stats",))
    assert ended.code == 2
    assert ended.stderr == (
        "sonde: --log-to needs --diagnose where a dump is written: a dump has no findings to log "
        "[usage]\n"
    )


def test_a_tracker_that_fails_does_not_end_the_training(tmp_path: Path) -> None:
    (tmp_path / "wandb").write_text("not a directory")
    ended = log_to("wandb", tmp_path)
    bare = run("plain_loop.py", "fault", cwd=tmp_path)
    assert ended.results["weights"] == bare.results["weights"]
    assert ended.said[0].startswith(
        "sonde: logging to wandb failed and has ended, training goes on"
    )
