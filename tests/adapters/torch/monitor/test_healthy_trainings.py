"""Healthy trainings trigger nothing in 2,000 steps, however alarming their signals look."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.adapters.torch.monitor.healthy_trainings import HEALTHY, STEPS

import sonde


@pytest.mark.slow
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
    left = {each.name for each in (tmp_path / "steps").iterdir()}
    assert left == {"signals.rank_0.ring", "statistics"}
    if name == "grad_scaler":
        skipped = found["is_skipped"].astype(bool)
        assert skipped.any()
        assert found["non_finite_gradients"][skipped].all()
        assert not np.isnan(found["loss_scale"]).any()
