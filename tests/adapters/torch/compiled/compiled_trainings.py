"""Small trainings that call torch.compile in every way. Each returns losses and final weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

CompiledTraining = Callable[[str], Any]
COMPILED: dict[str, CompiledTraining] = {}


def compiled_training(function: CompiledTraining) -> CompiledTraining:
    COMPILED[function.__name__] = function
    return function


def weights(*modules: nn.Module) -> list[torch.Tensor]:
    return [value.clone() for module in modules for value in module.state_dict().values()]


def fit(
    run: Callable[..., Any],
    net: nn.Module,
    make: Callable[[int], tuple[torch.Tensor, torch.Tensor]],
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = functional.mse_loss,
    steps: int = 4,
    optimizer: torch.optim.Optimizer | None = None,
) -> list[Any]:
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        x, y = make(step)
        optimizer.zero_grad()
        loss = loss_of(run(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, weights(net)]


def batch(_: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(5, 4), torch.randn(5, 2)


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8))
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.body(x)))


@compiled_training
def a_model(backend: str) -> Any:
    net = Plain()
    return fit(torch.compile(net, backend=backend, fullgraph=True), net, batch)


@compiled_training
def a_function(backend: str) -> Any:
    net = Plain()

    @torch.compile(backend=backend)
    def run(x: torch.Tensor) -> torch.Tensor:
        return net(x) * 2

    return fit(run, net, batch)


@compiled_training
def a_method_and_a_loss(backend: str) -> Any:
    net = Plain()
    net.compile(backend=backend)
    loss = torch.compile(lambda a, b: ((a - b) ** 2).mean(), backend=backend)
    return fit(net, net, batch, loss)


class Breaking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.second = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        torch._dynamo.graph_break()
        x = x + 1
        return self.second(x)


@compiled_training
def graph_breaks(backend: str) -> Any:
    net = Breaking()
    return fit(torch.compile(net, backend=backend), net, batch)


@compiled_training
def a_part_of_an_eager_model(backend: str) -> Any:
    net = nn.Sequential(nn.Linear(4, 6), Breaking())
    net[1].first = nn.Linear(6, 6)
    net[1].compile(backend=backend)
    return fit(net, net, batch)


@compiled_training
def dynamic_shapes(backend: str) -> Any:
    net = Plain()

    def make(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(5 + step, 4), torch.randn(5 + step, 2)

    return fit(torch.compile(net, backend=backend, dynamic=True), net, make)


@compiled_training
def recompilations(backend: str) -> Any:
    net = Plain()

    def make(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(5 + step // 2, 4), torch.randn(5 + step // 2, 2)

    return fit(torch.compile(net, backend=backend, dynamic=False), net, make)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(checkpoint(self.inside, x, use_reentrant=False))


@compiled_training
def activation_checkpointing(backend: str) -> Any:
    net = Checkpointed()
    return fit(torch.compile(net, backend=backend), net, batch)


@compiled_training
def a_cnn_with_batch_norm(backend: str) -> Any:
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 3),
    )
    return fit(
        torch.compile(net, backend=backend),
        net,
        lambda _: (torch.randn(4, 1, 8, 8), torch.randint(3, (4,))),
        functional.cross_entropy,
    )


@compiled_training
def a_transformer(backend: str) -> Any:
    net = nn.Sequential(
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Linear(8, 2)
    )
    return fit(
        torch.compile(net, backend=backend),
        net,
        lambda _: (torch.randn(2, 5, 8), torch.randn(2, 5, 2)),
    )


@compiled_training
def an_optimizer(backend: str) -> Any:
    net = Plain()
    optimizer = torch.optim.Adam(net.parameters())
    step = torch.compile(optimizer.step, backend=backend)
    losses = []
    for _ in range(4):
        x, y = batch()
        optimizer.zero_grad()
        loss = functional.mse_loss(net(x), y)
        loss.backward()
        step()
        losses.append(loss.item())
    return [losses, weights(net)]


@compiled_training
def a_whole_step(backend: str) -> Any:
    net = Plain()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @torch.compile(backend=backend)
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return [[step(*batch()).item() for _ in range(4)], weights(net)]
