"""Trainings whose loops and optimizers are of many kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tests.adapters.torch.fitting import Training, Trainings, batch, fit, mlp, weights
from torch import nn
from torch.nn import functional

TRAININGS = Trainings()


@TRAININGS.add
def a_grad_scaler() -> Any:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**15, growth_interval=2)
    losses: list[Any] = []
    for number in range(4):
        x, y = batch()
        if number == 1:
            x = x * 1e20  # the gradients overflow and the step is skipped
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = functional.mse_loss(net(x).float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append((repr(loss.item()), scaler.get_scale()))
    return [losses, weights(net)]


def _optimizer_kind(make: Callable[[Any], torch.optim.Optimizer]) -> Training:
    def train() -> Any:
        net = mlp()
        return fit(net, make(net.parameters()), batch)

    return train


for _name, _make in {
    "foreach_adam": lambda p: torch.optim.Adam(p, foreach=True),
    "fused_adam": lambda p: torch.optim.Adam(p, fused=True),
    "fused_sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "amsgrad_with_a_tensor_rate": lambda p: torch.optim.Adam(
        p, lr=torch.tensor(0.01), amsgrad=True, foreach=False, maximize=True
    ),
    "adagrad": lambda p: torch.optim.Adagrad(p),
    "adafactor": lambda p: torch.optim.Adafactor(p),
}.items():
    TRAININGS[_name] = _optimizer_kind(_make)


@TRAININGS.add
def an_lbfgs_closure() -> Any:
    net = mlp()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3)
    x, y = batch()
    losses = []
    for _ in range(2):

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = functional.mse_loss(net(x), y)
            loss.backward()
            return loss

        losses.append(float(optimizer.step(closure).detach()))
    return [losses, weights(net)]


@TRAININGS.add
def gradient_accumulation() -> Any:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        for _ in range(3):
            x, y = batch()
            loss = functional.mse_loss(net(x), y) / 3
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return [losses, weights(net)]


@TRAININGS.add
def two_optimizers() -> Any:
    maker, judge = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(), nn.Linear(6, 1))
    first = torch.optim.Adam(maker.parameters())
    second = torch.optim.Adam(judge.parameters())
    losses = []
    for _ in range(3):
        real, noise = torch.randn(3, 4), torch.randn(3, 2)
        second.zero_grad()
        loss = (
            functional.softplus(-judge(real)).mean()
            + functional.softplus(judge(maker(noise).detach())).mean()
        )
        loss.backward()
        second.step()
        first.zero_grad()
        fooled = functional.softplus(-judge(maker(noise))).mean()
        fooled.backward()
        first.step()
        losses += [loss.item(), fooled.item()]
    return [losses, weights(maker, judge)]


@TRAININGS.add
def evaluation_in_between() -> Any:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    results = []
    for number in range(4):
        net.train()
        results.append(fit(net, optimizer, batch, steps=1))
        net.eval()
        with torch.inference_mode() if number % 2 else torch.no_grad():
            results.append(net(batch()[0]).clone())
    return results


@TRAININGS.add
def an_optimizer_step_inside_backward() -> Any:
    net = mlp()
    each = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}

    def update(parameter: torch.Tensor) -> None:
        each[parameter].step()
        each[parameter].zero_grad()

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    losses = []
    for _ in range(3):
        x, y = batch()
        loss = functional.mse_loss(net(x), y)
        loss.backward()
        losses.append(loss.item())
    return [losses, weights(net)]


class Selfish(nn.Module):
    """Steps its own optimizer inside ``forward``."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.inner.parameters(), lr=0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            self.optimizer.zero_grad()
            self.inner(x.detach()).square().mean().backward()
            self.optimizer.step()
        return self.inner(x).tanh()


@TRAININGS.add
def an_optimizer_step_inside_forward() -> Any:
    net = nn.Sequential(Selfish(), nn.Linear(4, 2))
    return fit(net, torch.optim.SGD(net[1].parameters(), lr=0.1), batch)


@TRAININGS.add
def exceptions_caught_by_the_program() -> Any:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses: list[Any] = []
    for _ in range(3):
        x, y = batch()
        for action in (
            lambda x=x: x @ torch.ones(3, 3),
            lambda x=x: net(x[:, :2]),
            lambda x=x: net[0](x).sum().backward(gradient=torch.ones(2)),
        ):
            try:
                action()
            except RuntimeError as error:
                losses.append(str(error))
        losses.append(fit(net, optimizer, lambda x=x, y=y: (x, y), steps=1))
    return losses
