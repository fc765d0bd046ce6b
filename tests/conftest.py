"""Fixtures of more than one folder."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["native", "python"])
def matcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with each of the two matchers of eager ops."""
    if request.param == "native":
        pytest.importorskip("sonde.adapters.torch._match")
    monkeypatch.setenv("SONDE_MATCHER", request.param)
    return str(request.param)
