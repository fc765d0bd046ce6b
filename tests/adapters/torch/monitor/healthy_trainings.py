"""Small healthy trainings whose signals look alarming: none of them may trigger."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

STEPS = 2000


def _net(inside: int = 4, outside: int = 1, width: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inside, width), nn.Tanh(), nn.Linear(width, outside))


def warm_up() -> None:
    """The learning rate rises from 0 and then falls along a cosine; batches are noisy."""
    torch.manual_seed(0)
    net = _net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)

    def rate(step: int) -> float:
        return min(step / 200, 1) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / STEPS)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    for _ in range(STEPS):
        x = torch.randn(8, 4)
        loss = nn.functional.mse_loss(net(x)[:, 0], x.sum(1) + 0.5 * torch.randn(8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def grad_scaler() -> None:
    """A GradScaler finds its scale by overflowing, and tries a larger one every 50 steps."""
    torch.manual_seed(1)
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=50)
    for step in range(STEPS):
        x = torch.randn(8, 4)
        with torch.autocast("cpu", torch.bfloat16):
            out = net(x)
        loss = nn.functional.mse_loss(out.float()[:, 0], x.sum(1))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if scaler.get_scale() > 2.0**33:  # What gradients of float16 would do.
            parameter = next(net.parameters())
            assert parameter.grad is not None
            parameter.grad[0, step % 4] = math.inf
        scaler.step(optimizer)
        scaler.update()


def gan() -> None:
    """Two networks work against each other, each with its own optimizer and losses of any size."""
    torch.manual_seed(2)
    maker, judge = _net(3, 2), _net(2, 1)
    makes = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.9))
    judges = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.9))
    bce = nn.functional.binary_cross_entropy_with_logits
    for _ in range(STEPS // 2):
        angle = 2 * math.pi * torch.rand(16)
        real = torch.stack((angle.cos(), angle.sin()), 1)
        fake = maker(torch.randn(16, 3))
        judges.zero_grad()
        yes, no = judge(real), judge(fake.detach())
        (bce(yes, torch.ones_like(yes)) + bce(no, torch.zeros_like(no))).backward()
        judges.step()
        makes.zero_grad()
        said = judge(fake)
        bce(said, torch.ones_like(said)).backward()
        makes.step()


def reinforcement() -> None:
    """REINFORCE on a bandit: losses of both signs, gradients with heavy tails, rare rewards."""
    torch.manual_seed(3)
    policy = _net(2, 5)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    for _ in range(STEPS):
        state = torch.randn(4, 2)
        chosen = torch.distributions.Categorical(logits=policy(state))
        action = chosen.sample()
        reward = torch.where(torch.rand(4) < 0.05, 20.0, 0.1) * (action == 2) - 0.1
        loss = -(chosen.log_prob(action) * reward).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def restarts() -> None:
    """Warm restarts of the learning rate; halfway the optimizer is replaced, as after a resume."""
    torch.manual_seed(4)
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 150)
    for step in range(STEPS):
        if step == STEPS // 2:
            state = optimizer.state_dict()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
            optimizer.load_state_dict(state)
            schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 150)
        x = torch.randn(8, 4)
        loss = nn.functional.mse_loss(net(x)[:, 0], x.prod(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def memorising() -> None:
    """A tiny data set is learned by heart: the loss falls by orders of magnitude."""
    torch.manual_seed(5)
    net = _net(width=32)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    data, target = torch.randn(16, 4), torch.randn(16)
    for step in range(STEPS):
        rows = slice(4 * (step % 4), 4 * (step % 4) + 4)
        loss = nn.functional.mse_loss(net(data[rows])[:, 0], target[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def accumulation() -> None:
    """Gradients of three micro-batches are accumulated, of one at the end of an epoch; every 50
    steps one more backward pass measures something, and its gradients are cleared."""
    torch.manual_seed(6)
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(STEPS):
        if step % 50 == 20:
            net(torch.randn(8, 4)).square().mean().backward()
        optimizer.zero_grad()
        for _ in range(1 if step % 30 == 29 else 3):
            x = torch.randn(8, 4)
            nn.functional.mse_loss(net(x)[:, 0], x.sum(1)).backward()
        optimizer.step()


HEALTHY: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (warm_up, grad_scaler, gan, reinforcement, restarts, memorising, accumulation)
}
