"""``sonde show`` on a directory that a SummaryCollector wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from sonde.cli.main import main
from sonde.train import Model, SummaryCollector


@pytest.fixture
def summary(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    network = nn.Linear(2, 1)
    model = Model(network, nn.MSELoss(), torch.optim.SGD(network.parameters(), 0.1))
    batches = [(torch.ones(4, 2), torch.zeros(4, 1))] * 4
    model.train(1, batches, callbacks=[SummaryCollector(str(tmp_path / "run"), collect_freq=1)])
    return tmp_path / "run"


def test_a_summary_lists_its_scalars_with_their_last_value(
    summary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(summary)]) == 0
    shown = capsys.readouterr().out
    assert "a summary, finished, step 4" in shown
    loss = next(line for line in shown.splitlines() if line.startswith("loss "))
    assert loss.split()[1:3] == ["4", "4"]
    assert "weights/weight" in shown


def test_a_summary_as_json_is_one_document_without_nan(
    summary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(summary), "--json"]) == 0
    listing = json.loads(capsys.readouterr().out, parse_constant=lambda text: pytest.fail(text))
    assert listing["step"] == 4
    assert listing["scalars"]["loss"]["count"] == 4
