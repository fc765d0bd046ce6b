"""Fixtures of the contract suite."""

from __future__ import annotations

import pytest

from sonde.server.dumps import recheck


@pytest.fixture(autouse=True)
def _checks_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes take longer to start than these small dumps take to check."""
    monkeypatch.setattr(recheck, "_ALONE_SECONDS", float("inf"))
    monkeypatch.setattr(recheck, "_WORTH_SECONDS", float("inf"))
