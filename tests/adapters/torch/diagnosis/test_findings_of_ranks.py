"""Rank 0 reports what each rank found in its own process."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch
from torch import nn

import sonde
from sonde.adapters.torch.diagnosis import ranks
from sonde.core.finding import Finding


def train(*, clears: bool) -> list[Finding]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    with sonde.diagnose(prints=False) as diagnosis:
        for _ in range(12):
            if clears:
                optimizer.zero_grad()
            rows = torch.randn(16, 4)
            loss = nn.functional.cross_entropy(net(rows), (rows[:, 0] > 0).long())
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return diagnosis.findings


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A job of two ranks, which train in this process one after the other."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setenv("MASTER_PORT", str(tmp_path))
    return monkeypatch


def test_rank_0_names_the_rank_that_does_not_clear_its_gradients(job: pytest.MonkeyPatch) -> None:
    job.setenv("RANK", "1")
    assert train(clears=False) == []
    job.setenv("RANK", "0")
    found = {each.rule: each for each in train(clears=True)}
    assert found["missing-zero-grad"].rank == 1
    assert found["missing-zero-grad"].lines[0].file.endswith("test_findings_of_ranks.py")
    assert "ranks" not in found["lost-communication"].evidence


def test_what_both_ranks_do_is_reported_once(job: pytest.MonkeyPatch) -> None:
    job.setenv("RANK", "1")
    train(clears=False)
    job.setenv("RANK", "0")
    found = [each for each in train(clears=False) if each.rule == "missing-zero-grad"]
    assert [each.evidence["ranks"] for each in found] == [[0, 1]]


def test_a_rank_that_hands_over_nothing_is_named(
    job: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job.setattr(ranks, "WAIT_SECONDS", 0.0)
    job.setenv("RANK", "0")
    assert [each.rule for each in train(clears=False)] == ["missing-zero-grad"]
    assert "without those of rank 1, which handed over none" in capsys.readouterr().err


def test_rank_0_does_not_wait_for_ranks_of_another_machine(
    job: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job.setattr(ranks, "WAIT_SECONDS", 1e6)
    job.setattr(tempfile, "tempdir", str(tmp_path))
    job.setenv("LOCAL_WORLD_SIZE", "1")
    job.setenv("RANK", "1")
    train(clears=False)
    assert list(tmp_path.iterdir()) == []
    job.setenv("RANK", "0")
    assert train(clears=True) == []
    assert "without those of rank 1, which handed over none" in capsys.readouterr().err
