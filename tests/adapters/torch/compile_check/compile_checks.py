"""A small network, trained once and checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import decomposition
from torch.nn import functional

from sonde.adapters.torch.compile_check.agreement import CompileVerdict
from sonde.adapters.torch.compile_check.check import CheckDoneError, CompileCheck

BACKEND = "aot_eager_decomp_partition"  # Inductor's graphs, without the time Inductor takes
aten = torch.ops.aten
DECOMPOSITIONS: dict[Any, Any] = decomposition.decompositions


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16)
        self.last = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.gelu(self.norm(self.first(x)))
        return self.last(functional.dropout(hidden, 0.3))


def train(
    net: nn.Module,
    *,
    backend: Any = BACKEND,
    steps: int = 2,
    dtype: torch.dtype = torch.float32,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
    clip: float | None = None,
    x_dtype: torch.dtype = torch.float32,
) -> list[torch.Tensor]:
    """Train a little; the losses."""
    torch.manual_seed(1)
    run = net if backend is None else torch.compile(net, backend=backend)
    stepper = optimizer(net.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        x, y = torch.randn(8, 6), torch.randint(3, (8,))
        stepper.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
            loss = functional.cross_entropy(run(x.to(x_dtype)).float(), y)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        stepper.step()
        losses.append(loss.detach())
    return losses


def checked(program: Callable[[], Any], *, step: int = 0, budget: int = 1 << 30) -> CompileVerdict:
    """The verdict about a step of a program that is ended there."""
    check = CompileCheck(step, continues=False, say=lambda _: None, budget=budget)
    with pytest.raises(CheckDoneError), check.attached():
        program()
    assert check.verdict is not None
    assert torch.compile.__module__ == "torch"
    return check.verdict


def new_net(kind: type[nn.Module] = Net) -> nn.Module:
    torch.manual_seed(0)
    return kind()
