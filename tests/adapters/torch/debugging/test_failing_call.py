"""The call that raised the error of a program: its op, its module and its tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from sonde.adapters.torch.debugging.failing_call import failing_call
from sonde.wire.shapes import FailedCall, NamedTensor, TensorType

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python keeps no columns")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(8, 16)
        self.blocks = nn.ModuleList([nn.Linear(32, 4)])
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.stem(x))
        if len(x) == 1:
            return hidden * self.scale
        if len(x) == 2:
            raise ValueError("two rows")
        return self.blocks[0](hidden)


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        return func(*args, **(kwargs or {}))


def failed(function: Callable[[], object]) -> FailedCall | None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        function()
    return failing_call(caught.value)


def tensor(name: str, *shape: int) -> NamedTensor:
    return NamedTensor(name, TensorType("float32", shape))


def test_an_op_in_a_module_of_torch() -> None:
    expected = FailedCall(
        "linear",
        "blocks.0",
        "Linear",
        (tensor("input", 20, 16), tensor("self.weight", 4, 32), tensor("self.bias", 4)),
    )
    assert failed(lambda: Net()(torch.ones(20, 8))) == expected
    with Passing():
        assert failed(lambda: Net()(torch.ones(20, 8))) == expected


def test_an_operator_in_the_users_own_module() -> None:
    assert failed(lambda: Net()(torch.ones(1, 8))) == FailedCall(
        "mul", "", "Net", (tensor("hidden", 1, 16), tensor("self.scale", 3))
    )


def test_functions_and_methods_outside_of_modules() -> None:
    rows, more = torch.ones(2, 3), torch.ones(2, 4)
    assert failed(lambda: rows @ more) == FailedCall(
        "matmul", "", "", (tensor("rows", 2, 3), tensor("more", 2, 4))
    )
    assert failed(lambda: torch.cat([rows, more])) == FailedCall(
        "cat", "", "", (tensor("rows", 2, 3), tensor("more", 2, 4))
    )
    assert failed(lambda: rows.view(5)) == FailedCall("view", "", "", (tensor("rows", 2, 3),))
    assert failed(lambda: rows[7]) == FailedCall("index", "", "", (tensor("rows", 2, 3),))


def test_an_error_that_no_op_raised_has_the_module_at_most() -> None:
    assert failed(lambda: Net()(torch.ones(2, 8))) == FailedCall("", "", "Net", ())
    assert failed(lambda: {}["x"]) is None
    assert failing_call(KeyboardInterrupt()) is None
    assert failing_call(ValueError("never raised")) is None
