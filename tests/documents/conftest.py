"""What ``sonde.context`` says and sets, for one test."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from sonde import context, logs
from sonde.core.mindspore.program_settings import PROGRAM


@pytest.fixture(autouse=True)
def _fresh_context(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(context, "_said", set())
    monkeypatch.setattr(context, "_given", dict(context._given))
    before = PROGRAM.class_names_in_scopes
    yield
    PROGRAM.class_names_in_scopes = before
    logs.reset()


@pytest.fixture
def warnings_logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The lines that were logged as warnings so far."""
    caplog.set_level(logging.WARNING)
    return lambda: [each.getMessage() for each in caplog.records]
