"""Fixtures of more than one folder."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings
from tests.leftovers import ended_on_failure

# How long an example takes says how busy the machine is. Where a change is judged, the examples are
# the same every time: it passes or fails by what it is, not by luck.
IS_GATE = "SONDE_SAME_EXAMPLES" in os.environ
settings.register_profile("unhurried", deadline=None, derandomize=IS_GATE)
settings.load_profile("unhurried")


def pytest_configure() -> None:
    """A shell's background jobs ignore Ctrl-C, and so would every program that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    with ended_on_failure():
        return (yield)


@pytest.fixture(params=["native", "python"])
def matcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with each of the two matchers of eager ops."""
    if request.param == "native":
        pytest.importorskip("sonde.adapters.torch._match")
    monkeypatch.setenv("SONDE_MATCHER", request.param)
    return str(request.param)
