"""``Diagnose``, the callback that says why a training fails."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sonde.core.errors import UsageError
from sonde.train import Diagnose, History, Model


class Probabilities(nn.Module):
    """A classifier whose output is that of a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.layers(rows), dim=-1)


def train(*callbacks: object, loss: nn.Module | None = None, twice: bool = True) -> list[float]:
    torch.manual_seed(3)
    network: nn.Module = Probabilities() if twice else Probabilities().layers
    rows = torch.randn(160, 6)
    labels = (rows[:, 0] > 0).long() + (rows[:, 1] > 0).long()
    history = History()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    model = Model(network, loss or nn.CrossEntropyLoss(), optimizer)
    loader = DataLoader(TensorDataset(rows, labels), batch_size=16)
    model.train(3, loader, [*callbacks, history])  # type: ignore[list-item]
    return [float(each) for each in history.history["net_output"]]


def test_the_findings_are_printed_and_kept(capsys: pytest.CaptureFixture[str]) -> None:
    diagnose = Diagnose()
    assert diagnose.findings == []
    train(diagnose)
    assert [each.rule for each in diagnose.findings] == ["double-softmax"]
    said = capsys.readouterr().err
    assert "1. established: the output of softmax at test_diagnose.py:24" in said
    assert "do: remove softmax at test_diagnose.py:24" in said


def test_a_healthy_training_has_none_and_is_not_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    diagnose = Diagnose(verbose=False)
    assert train(diagnose, twice=False) == train(twice=False)
    assert diagnose.findings == []
    assert capsys.readouterr().err == ""


def test_it_stops_the_run_at_the_first_finding() -> None:
    class Count(History):
        steps = 0

        def step_end(self, run_context: object) -> None:
            self.steps += 1

    count = Count()
    train(Diagnose(stop=True, verbose=False), count)
    assert count.steps == 12


def test_the_same_callback_serves_several_runs(tmp_path: Path) -> None:
    diagnose = Diagnose(verbose=False, html=tmp_path / "a.html")
    for _ in range(2):
        train(diagnose)
        assert [each.rule for each in diagnose.findings] == ["double-softmax"]
    assert "double-softmax" in (tmp_path / "a.html").read_text()


def test_a_wrong_kind_is_refused_before_the_run() -> None:
    with pytest.raises(UsageError, match="'double-sofmax' is not a kind of finding"):
        Diagnose(ignore="double-sofmax")
    quiet = Diagnose(ignore=["double-softmax"], verbose=False)
    train(quiet)
    assert quiet.findings == []
