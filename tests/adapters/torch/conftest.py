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


@pytest.fixture(autouse=True)
def torch_is_left_as_found() -> Iterator[None]:
    """Sonde and the test leave torch without dispatch modes, and with gradients."""
    yield
    assert not torch.utils._python_dispatch._is_in_torch_dispatch_mode
    assert torch.is_grad_enabled()
