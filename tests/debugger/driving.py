"""Trains in this thread, with a simulated user at the page in another."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch
from tests.debugger.hub import Hub, RankConnection
from torch import nn

from sonde.adapters.torch.adapter import StepBy
from sonde.adapters.torch.attach import attach
from sonde.capture.config import CaptureConfig
from sonde.debugger import Terminated
from sonde.debugger.settings import DebuggerOptions

Result = TypeVar("Result")
TANH = "Default/network-Net/act-Tanh/tanh-op0"
OPTIONS = DebuggerOptions(run="test", wait_seconds=10.0, trace=False)


class Net(nn.Module):
    """``spoil`` is called with the step and the hidden values."""

    def __init__(self, spoil: Callable[[int, torch.Tensor], torch.Tensor] | None = None) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.act = nn.Tanh()
        self.fc2 = nn.Linear(16, 4)
        self._spoil = spoil
        self._step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.act(self.fc1(x))
        if self._spoil is not None:
            hidden = self._spoil(self._step, hidden)
        self._step += 1
        result: torch.Tensor = self.fc2(hidden)
        return result


def train(net: nn.Module, steps: int, *, rate: float = 0.1) -> list[float]:
    """The losses of a few steps."""
    torch.manual_seed(1)
    data, target = torch.randn(32, 8), torch.randn(32, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((net(data) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def make_net(spoil: Callable[[int, torch.Tensor], torch.Tensor] | None = None) -> Net:
    torch.manual_seed(0)
    return Net(spoil)


def driven(
    training: Callable[[], Result],
    person: Callable[[RankConnection], None],
    *,
    hub: Hub | None = None,
    step_by: StepBy = "optimizer",
    config: CaptureConfig | None = None,
    **options: Any,
) -> tuple[Result | None, RankConnection]:
    """Debug ``training`` while ``person`` sits at the page; its result, None if it was ended, and
    everything the rank said. ``config``: what is dumped as well. What fails for the person fails
    here."""
    with hub or Hub() as server:
        failures: list[BaseException] = []

        def sit() -> None:
            rank = server.rank()
            try:
                person(rank)
            except BaseException as error:
                failures.append(error)
                with contextlib.suppress(OSError):
                    rank.control("terminate")

        chair = threading.Thread(target=sit)
        chair.start()
        chosen = replace(OPTIONS, port=server.port, lost_seconds=0.0, **options)
        result = None
        try:
            with attach(config, starts_at_once=False, step_by=step_by, debugger=chosen):
                result = training()
        except Terminated:
            pass
        chair.join(60)
        if failures:
            raise failures[0]
        assert not chair.is_alive()
        rank = server.rank()
        rank.ended()
        return result, rank
