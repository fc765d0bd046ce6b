"""Programs that swap the tensors of their modules run as they do without Sonde."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.modes import MODES, bare_and_observed, observed
from tests.adapters.torch.watching import same, watch
from torch import nn


@pytest.fixture
def swapping() -> Iterator[None]:
    """Conversions of modules swap their parameters, as they always do for DTensors."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


def converting() -> list[torch.Tensor]:
    """A training that converts its network after a forward, and after each step."""
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    with torch.no_grad():
        net(torch.randn(3, 4))
    net.to(torch.float64)
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(4):
        data = torch.randn(3, 4, dtype=net[0].weight.dtype)
        net(data).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        net.to(torch.float32 if step % 2 == 0 else torch.float64)
        net.load_state_dict({name: value.clone() for name, value in net.state_dict().items()})
        optimizer.load_state_dict(optimizer.state_dict())
    return [value.detach() for value in net.state_dict().values()]


@pytest.mark.usefixtures("swapping")
@pytest.mark.parametrize("mode", MODES)
def test_a_network_is_converted_by_swapping_its_tensors(
    mode: str, matcher: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bare, seen = bare_and_observed(mode, tmp_path, converting)
    assert same(bare, seen)
    assert "failed" not in capfd.readouterr().err


def test_a_swapped_parameter_keeps_its_name_and_shows_its_new_values(matcher: str) -> None:
    net = nn.Linear(2, 2, bias=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    other = nn.Parameter(torch.full((2, 2), 7.0))
    with watch() as seen:
        for _ in range(3):
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if other is not None:
                torch.utils.swap_tensors(net.weight, other)
                other = None
    assert seen.reports == []
    for step, value in ((0, None), (1, 7.0), (2, 7.0)):
        call = next(each for each in seen.calls(step) if each.node.name == "weight")
        assert call.outputs[0] is not None
        assert (call.outputs[0] == 7.0).all() == (value is not None)


def test_any_tensor_may_be_swapped_in_the_middle_of_a_step(matcher: str) -> None:
    """A parameter of a module, one that no module holds, their gradients, a sparse one."""
    net = nn.Linear(2, 2)
    free = torch.ones(2, requires_grad=True)
    sparse = nn.Parameter(torch.eye(2).to_sparse())
    with watch() as seen:
        loss = (net(torch.ones(1, 2)) * free).sum() + torch.sparse.mm(
            sparse, torch.ones(2, 2)
        ).sum()
        loss.backward()
        del loss
        gc.collect()
        assert net.weight.grad is not None
        assert free.grad is not None
        for tensor in (net.weight, net.bias, free, sparse, net.weight.grad, free.grad):
            assert weakref.getweakrefs(tensor) == []
            twin: Any = tensor.detach().clone().requires_grad_(tensor.requires_grad)
            torch.utils.swap_tensors(
                tensor, nn.Parameter(twin) if type(tensor) is nn.Parameter else twin
            )
    assert seen.reports == []


@pytest.mark.parametrize("mode", MODES)
def test_a_network_that_a_program_drops_is_freed(mode: str, tmp_path: Path) -> None:
    """No table of Sonde holds its parameters, also if no step ends."""
    with observed(mode, tmp_path):
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        storages = [weakref.ref(each.untyped_storage()) for each in net.parameters()]
        net(torch.ones(1, 4)).sum().backward()
        del net
        gc.collect()
        assert [each() for each in storages] == [None] * 4
