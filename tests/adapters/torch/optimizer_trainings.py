"""Trainings whose optimizers are unusual: two of them, skipped steps, a class of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits


def gan() -> Any:
    """The generator runs in the step of the discriminator; its backward pass is in the next."""
    generator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    discriminator = nn.Sequential(
        nn.Linear(3, 8), nn.BatchNorm1d(8), nn.LeakyReLU(), nn.Dropout(0.2), nn.Linear(8, 1)
    )
    first = torch.optim.Adam(discriminator.parameters(), 1e-3)
    second = torch.optim.Adam(generator.parameters(), 1e-3)
    real, fake_label, real_label = torch.randn(6, 3), torch.zeros(6, 1), torch.ones(6, 1)
    for _ in range(2):
        made = generator(torch.randn(6, 4))
        first.zero_grad()
        loss = binary_cross_entropy_with_logits(discriminator(real), real_label)
        loss = loss + binary_cross_entropy_with_logits(discriminator(made.detach()), fake_label)
        loss.backward()
        first.step()
        second.zero_grad()
        binary_cross_entropy_with_logits(discriminator(made), real_label).backward()
        second.step()
    return generator[0].weight.detach().clone()


def two_optimizers() -> Any:
    """One backward pass, then two optimizers: nothing but the second one is in its step."""
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    first = torch.optim.Adam(network[0].parameters(), 1e-3)
    second = torch.optim.SGD(network[2].parameters(), 1e-1, momentum=0.9)
    for _ in range(2):
        first.zero_grad()
        second.zero_grad()
        network(torch.randn(6, 4)).square().mean().backward()
        first.step()
        second.step()
    return network[2].weight.detach().clone()


def skipped_step() -> Any:
    """The GradScaler skips the optimizer in step 2."""
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for number in range(4):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = network(torch.randn(6, 4) * (1e6 if number == 2 else 1)).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return network[0].weight.detach().clone()


class OwnOptimizer(torch.optim.Optimizer):
    def __init__(self, parameters: Any, rate: float, *, boost: float) -> None:
        super().__init__(parameters, {"rate": rate})
        self.boost = boost

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(parameter.grad, alpha=-group["rate"] * self.boost)


def own_optimizer() -> Any:
    network = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    optimizer = OwnOptimizer(network.parameters(), 0.1, boost=2.0)
    for _ in range(4):
        optimizer.zero_grad()
        network(torch.randn(6, 4)).square().mean().backward()
        optimizer.step()
    return network[0].weight.detach().clone()


def changed_weights() -> Any:
    """The program writes to weights and to the optimizer's state between two steps, as torch counts
    writes and without that."""
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for number in range(4):
        for parameter in network.parameters():
            parameter.data.clamp_(-0.2, 0.2)
        optimizer.zero_grad()
        network(torch.randn(6, 4)).square().mean().backward()
        if number:
            with torch.no_grad():
                optimizer.state[network[0].weight]["exp_avg"].mul_(0.5)
        optimizer.step()
        network[2].bias.data = torch.randn(3)
    return network[0].weight.detach().clone()


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "gan": gan,
    "two optimizers": two_optimizers,
    "skipped step": skipped_step,
    "own optimizer": own_optimizer,
    "changed weights": changed_weights,
}
