"""Programs that do odd things compute the same numbers in every mode, and Sonde stays on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.adapters.torch.modes import MODES, bare_and_observed
from tests.adapters.torch.odd_trainings import TRAININGS
from tests.adapters.torch.watching import same


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TRAININGS)
def test_an_odd_training_is_the_same_bit_for_bit(
    name: str, mode: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bare, seen = bare_and_observed(mode, tmp_path, TRAININGS[name])
    assert same(bare, seen)
    told = capfd.readouterr().err
    assert "failed" not in told
    assert "Traceback" not in told
