"""Which script, data and checkpoints made a run: written while it runs, read by the page."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset

import sonde
from sonde.adapters.torch.checkpoints.lineage import dataset_text
from sonde.dump.lineage import LINEAGE_FILE, LineageRecorder, read_lineage
from sonde.server.dumps.run import DumpRun
from sonde.server.http.events import EventBroker
from sonde.trends.places import run_lineages


def train(directory: Path) -> None:
    """Loads a checkpoint, trains two steps on a dataset, and saves another."""
    network = torch.nn.Linear(3, 1)
    torch.save(network.state_dict(), directory / "before.pt")
    network.load_state_dict(torch.load(directory / "before.pt"))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    dataset = TensorDataset(torch.randn(8, 3))
    dataset.root = "/data/numbers"  # type: ignore[attr-defined]
    for (x,) in DataLoader(dataset, batch_size=4):
        optimizer.zero_grad()
        network(x).sum().backward()
        optimizer.step()
    with (directory / "after.pt").open("wb") as file:
        torch.save(network.state_dict(), file)


def test_a_dump_names_script_arguments_data_and_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--lr", "0.1"])
    recorder = LineageRecorder()
    monkeypatch.setattr("sonde.adapters.torch.checkpoints.lineage.LINEAGE", recorder)
    config = {
        "common_dump_settings": {
            "path": str(tmp_path / "dump"),
            "net_name": "Net",
            "iteration": "all",
            "saved_data": "statistic",
            "dump_mode": 0,
            "input_output": 0,
            "kernels": [],
            "support_device": [0],
        }
    }
    (tmp_path / "dump.json").write_text(json.dumps(config))
    with sonde.capture(tmp_path / "dump.json"):
        train(tmp_path)
    made = run_lineages(tmp_path / "dump")[0]
    assert (made.script, made.arguments) == ("train.py", ["--lr", "0.1"])
    assert made.checkpoints_read == [str(tmp_path / "before.pt")]
    assert made.checkpoints_written == [str(tmp_path / "before.pt"), str(tmp_path / "after.pt")]
    assert made.data == ["TensorDataset, 8 samples, batches of 4, from /data/numbers"]
    run = DumpRun("dump", tmp_path / "dump", EventBroker())
    facts = run.view().ranks[0].metadata
    assert facts is not None
    assert (facts.script, facts.arguments) == ("train.py", ("--lr", "0.1"))
    assert facts.extra["checkpoints read"] == str(tmp_path / "before.pt")
    recorder.note("data", "later")  # The block has ended.
    assert run_lineages(tmp_path / "dump")[0].data == made.data


def test_wrapped_datasets_are_named_by_the_innermost() -> None:
    inner = TensorDataset(torch.zeros(10, 1))
    assert dataset_text(Subset(inner, range(4))) == "TensorDataset, 4 samples"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "other"}', '{"format": 3}'])
def test_a_damaged_file_is_no_lineage(tmp_path: Path, text: str) -> None:
    (tmp_path / LINEAGE_FILE).write_text(text)
    assert read_lineage(tmp_path) is None


def test_the_first_hundred_of_a_kind_are_kept(tmp_path: Path) -> None:
    recorder = LineageRecorder()
    recorder.keep_in(tmp_path)
    for number in range(150):
        recorder.note("checkpoints_written", f"/tmp/{number}.pt")
        recorder.note("checkpoints_written", f"/tmp/{number}.pt")
    found = read_lineage(tmp_path)
    assert found is not None
    assert found.checkpoints_written == [f"/tmp/{number}.pt" for number in range(100)]
