"""Ops whose kernels call other ops compute the same with Sonde: autocast casts for those, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from tests.adapters.torch.watching import bare_and_watched, same
from torch import nn

Network = Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]


def encoder_layer() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (torch.randn(4, 6, 8),)


def encoder() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(4, 6, 8),)


def attention() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    x = torch.randn(4, 6, 8)
    return nn.MultiheadAttention(8, 2, batch_first=True), (x, x, x)


def lstm() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return nn.LSTM(8, 4, num_layers=2, batch_first=True), (torch.randn(4, 6, 8),)


def gru() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return nn.GRU(8, 4, bidirectional=True), (torch.randn(6, 4, 8),)


def bilinear() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return nn.Bilinear(8, 8, 3), (torch.randn(4, 8), torch.randn(4, 8))


class Inverting(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.pinv(x)  # type: ignore[no-any-return]


def inverting() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Inverting(), (torch.randn(6, 4),)


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.sonde_test.twice_linear(x, self.weight)  # type: ignore[no-any-return]


def custom_op() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Custom(), (torch.randn(4, 8),)


@pytest.fixture(autouse=True)
def library() -> Iterator[torch.library.Library]:
    """An op of the program, whose kernel is written with other ops."""
    made = torch.library.Library("sonde_test", "FRAGMENT")
    made.define("twice_linear(Tensor x, Tensor weight) -> Tensor")
    made.impl("twice_linear", lambda x, weight: 2 * nn.functional.linear(x, weight), "CPU")
    yield made
    made._destroy()


def results_of(net: nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """What ``net`` returns without gradients: in full and in low precision, in both modes."""
    found = []
    for is_low in (False, True):
        for is_training in (False, True):
            net.train(is_training)
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=is_low):
                result = net(*inputs)
            found.append(result if isinstance(result, torch.Tensor) else result[0])
    return found


@pytest.mark.parametrize(
    "network", [encoder_layer, encoder, attention, lstm, gru, bilinear, inverting, custom_op]
)
def test_a_network_without_gradients_computes_the_same_in_and_outside_of_steps(
    network: Network, matcher: str
) -> None:
    """As the teacher of another network inside the step, and as an evaluation."""

    def run() -> list[torch.Tensor]:
        net, inputs = network()
        student = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        found = []
        for _ in range(3):
            found += results_of(net, inputs)
            student(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            student.eval()
            found += results_of(net, inputs)
            student.train()
        return found

    bare, seen, watched = bare_and_watched(run)
    assert [each.dtype for each in seen] == [each.dtype for each in bare]
    assert same(bare, seen)
    assert not [line for line in watched.reports if "failed" in line]


@pytest.mark.filterwarnings("ignore:.*an autograd kernel was not registered")
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("falls_through", [False, True])
def test_an_op_of_the_program_without_a_backward_of_its_own_keeps_its_gradients(
    dtype: torch.dtype | None, falls_through: bool, matcher: str, library: torch.library.Library
) -> None:
    if falls_through:
        library.impl("twice_linear", torch.library.fallthrough_kernel, "Autograd")

    def train() -> list[torch.Tensor]:
        net = Custom()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(4):
            with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
                loss = net(torch.ones(3, 8)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return [net.weight.detach(), loss.detach()]

    bare, seen, _ = bare_and_watched(train)
    assert same(bare, seen)
