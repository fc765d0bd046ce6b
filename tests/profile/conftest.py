"""Resets the state of the compiler, because programs that compile are recorded differently."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def nothing_compiled_before() -> None:
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None:
        dynamo.counters.clear()
