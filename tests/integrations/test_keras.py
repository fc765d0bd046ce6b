"""Keras 3 on the torch backend, under ``sonde run``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.integrations.running import run

if find_spec("keras") is None:  # Importing it would import a backend.
    pytest.skip("Keras is not installed", allow_module_level=True)
pytestmark = pytest.mark.slow


def test_steps_of_a_model_that_keras_fits(tmp_path: Path) -> None:
    command = ("-m", "sonde", "run", "--overflow", "--step-by", "manual")
    ended = run("keras_fit.py", "fault", cwd=tmp_path, command=command)
    assert ended.results == run("keras_fit.py", "fault", cwd=tmp_path).results
    (line,) = [each for each in ended.said if "contains 4 NaN of 16 values" in each]
    assert "in step 4, forward" in line
