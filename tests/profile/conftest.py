"""Tests that judge a time are left out unless they are asked for.

Times depend on what else the machine does: ``make timing`` runs these tests as well, on a machine
that has nothing else to do. What is found in a program that has one bottleneck, and at which line,
does not depend on it.
"""

from __future__ import annotations

import os
import sys

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("SONDE_TIMING_TESTS"):
        return
    left_out = pytest.mark.skip(reason="judges a time: make timing runs it")
    for item in items:
        if item.get_closest_marker("timing") is not None:
            item.add_marker(left_out)


@pytest.fixture(autouse=True)
def nothing_compiled_before() -> None:
    """A program that compiles is recorded otherwise; what other tests compiled is no matter."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None:
        dynamo.counters.clear()
