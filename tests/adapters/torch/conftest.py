"""Fixtures of the adapters' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from sonde.adapters.torch.printing import op as printing_op


@pytest.fixture
def nothing_compiled() -> Iterator[None]:
    """The compiler knows of no code when the test begins, and of none when it ends."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def nothing_counted() -> None:
    """No print has been made anywhere yet, as those with ``first_n`` and ``every_n`` count."""
    printing_op._counts.clear()
