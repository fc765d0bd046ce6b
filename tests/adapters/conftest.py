"""Fixtures of the adapters' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def nothing_compiled() -> Iterator[None]:
    """The compiler knows of no code when the test begins, and of none when it ends."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
