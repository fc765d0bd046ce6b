"""Fixtures of more than one folder."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings
from tests.leftovers import ended_on_failure

# Small tensors, and several tests at a time: one thread is faster than threads that wait for each
# other. Read when torch is imported, also by the programs that tests start.
os.environ["OMP_NUM_THREADS"] = "1"
# Two kernels at most are compiled at once: that is not worth processes that import torch again.
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
# The workers of pytest-xdist set the width of a terminal, at which commands would fold their lines.
os.environ.pop("COLUMNS", None)

LONG = ("tests/e2e", "tests/cli", "tests/adapters", "tests/profile", "tests/tune", "tests/train")

# How long an example takes says how busy the machine is. Where a change is judged, the examples are
# the same every time: it passes or fails by what it is, not by luck.
IS_GATE = "SONDE_SAME_EXAMPLES" in os.environ
settings.register_profile("unhurried", deadline=None, derandomize=IS_GATE)
settings.load_profile("unhurried")


def pytest_configure() -> None:
    """A shell's background jobs ignore Ctrl-C, and so would every program that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long first, so that of two workers neither waits long for the other."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    with ended_on_failure():
        return (yield)


@pytest.fixture(scope="module", autouse=True)
def earlier_objects_frozen() -> None:
    """Python's garbage collector, and Sonde's search for optimizers among all objects, pass over
    what earlier files left. A process that has run a thousand tests would take seconds for each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["native", "python"])
def matcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with each of the two matchers of eager ops."""
    if request.param == "native":
        pytest.importorskip("sonde.adapters.torch.eager._match")
    monkeypatch.setenv("SONDE_MATCHER", request.param)
    return str(request.param)
