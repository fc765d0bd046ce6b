"""Healthy trainings trigger nothing in 2,000 steps, and are the same with and without a guard."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.adapters.torch.monitor.healthy_trainings import HEALTHY, STEPS

import sonde


@pytest.mark.parametrize("name", sorted(HEALTHY))
def test_a_healthy_training_triggers_nothing(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with sonde.guard(tmp_path / "steps"):
        HEALTHY[name]()
    assert "nothing triggered" in capfd.readouterr().err
    found = sonde.signals(tmp_path / "steps")
    assert found["step"][-1] == STEPS - 1
    assert not found["triggers"].any()
    assert [each.name for each in (tmp_path / "steps").iterdir()] == ["signals.rank_0.ring"]


def test_the_grad_scaler_did_skip_steps(tmp_path: Path) -> None:
    with sonde.guard(tmp_path):
        HEALTHY["grad_scaler"]()
    found = sonde.signals(tmp_path)
    skipped = found["is_skipped"].astype(bool)
    assert skipped.any()
    assert found["non_finite_gradients"][skipped].all()
    assert not torch.isnan(torch.from_numpy(found["loss_scale"])).any()
