"""Trainings that use what makes executing a step again hard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from tests.adapters.torch.fitting import Trainings, batch, fit, mlp, weights
from torch import nn
from torch.nn import functional

TRAININGS = Trainings()


def _sgd(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


@TRAININGS.add
def accumulation_with_clipping_and_batch_norm() -> Any:
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 2))
    criterion = nn.SmoothL1Loss()
    optimizer = torch.optim.AdamW(net.parameters())
    losses = []
    for _ in range(3):
        for _ in range(3):
            x, y = batch()
            loss = criterion(net(x), y) / 3
            loss.backward()
            losses.append(loss.item())
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
    return losses, weights(net)


@TRAININGS.add
def one_loss_of_several_forwards() -> Any:
    """Gradients of one module's calls are added up before they reach the weights."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.2), nn.Tanh())
    optimizer = _sgd(net)
    for _ in range(3):
        x, y = batch()
        h = x
        for _ in range(4):
            h = net(h) + 0.1 * h
        loss = functional.mse_loss(h[:, :2], y) + net(x * 2).abs().mean() + net(-x).sum() * 1e-2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weights(net)


@TRAININGS.add
def a_gan_with_frozen_weights() -> Any:
    maker, judge = (
        nn.Linear(2, 4),
        nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1)),
    )
    first, second = _sgd(maker), _sgd(judge)
    for _ in range(3):
        real, noise = torch.randn(3, 4), torch.randn(3, 2)
        fake = maker(noise)
        second.zero_grad()
        (judge(fake.detach()).mean() - judge(real).mean()).backward()
        second.step()
        for each in judge.parameters():
            each.requires_grad_(False)
        first.zero_grad()
        (-judge(fake).mean()).backward()
        first.step()
        for each in judge.parameters():
            each.requires_grad = True
    return weights(maker, judge)


@TRAININGS.add
def a_gan_that_keeps_the_gradients_of_its_other_network() -> Any:
    """When the judge steps, the maker still has gradients of the step before."""
    maker, judge = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    first, second = _sgd(maker), _sgd(judge)
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(3):
        judge.zero_grad()
        criterion(judge(torch.randn(3, 4)), torch.ones(3, 1)).backward()
        fake = maker(torch.randn(3, 2))
        criterion(judge(fake.detach()), torch.zeros(3, 1)).backward()
        second.step()
        maker.zero_grad()
        criterion(judge(fake), torch.ones(3, 1)).backward()
        first.step()
    return weights(maker, judge)


@TRAININGS.add
def autocast_with_one_module_called_twice() -> Any:
    """Inside a region a weight is cast once: its gradients are added up in low precision."""
    net = mlp()
    optimizer = _sgd(net)
    for _ in range(3):
        for _ in range(2):
            x, y = batch()
            with torch.autocast("cpu", torch.bfloat16):
                out = net(x) + net(x + 1) * 0.5 + net(x - 1)
                loss = functional.mse_loss(out.float(), y)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return weights(net)


@TRAININGS.add
def a_step_inside_autocast() -> Any:
    net = mlp()
    optimizer = _sgd(net)
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            x, y = batch()
            functional.mse_loss(net(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    return weights(net)


class Pair(NamedTuple):
    mean: torch.Tensor
    spread: torch.Tensor


@dataclass
class Answer:
    values: dict[str, Any]
    pair: Pair
    unused: torch.Tensor | None = None
    text: str = ""


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, batch: dict[str, Any], *, scale: float = 1.0) -> Answer:
        x = batch["x"]["deep"][0] * scale
        return Answer(
            {"a": self.a(x), "list": [self.b(x), 3]}, Pair(x.mean(), self.a(x).std()), self.b(x)
        )


@TRAININGS.add
def nested_arguments_and_results() -> Any:
    net = Nested()
    optimizer = _sgd(net)
    for _ in range(3):
        found = net({"x": {"deep": (torch.randn(5, 4), None)}}, scale=2.0)
        loss = found.values["a"].square().mean() + found.values["list"][0].mean()
        (loss + found.pair.spread).backward()
        optimizer.step()
        optimizer.zero_grad()
    return weights(net)


class Stateful(nn.Module):
    """Changes attributes, a list and a generator of its own, and draws with Python and numpy."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.calls = 0
        self.hidden = torch.zeros(5, 2)
        self.history: list[float] = []
        self.generator = torch.Generator().manual_seed(3)
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import random

        import numpy as np

        self.calls += 1
        noise = torch.rand(5, 2, generator=self.generator) + random.random() + np.random.rand()
        out = self.layer(x) + self.hidden / self.calls + noise
        self.hidden = out.detach().tanh()
        self.mean = 0.9 * self.mean + out.detach().mean(0)
        self.history.append(float(out.detach().sum()))
        return out - self.mean


@TRAININGS.add
def a_module_with_state() -> Any:
    import random

    random.seed(5)
    net = Stateful()
    found = fit(net, _sgd(net), batch, steps=5)
    return found, net.calls, net.hidden, net.history, random.random(), torch.rand(1)


@TRAININGS.add
def penalties_on_weights_outside_of_modules() -> Any:
    net = mlp()
    scale = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([*net.parameters(), scale], lr=0.1)
    total = torch.zeros(())
    for _ in range(3):
        x, y = batch()
        out = net(x) * scale
        out = functional.dropout(out, 0.3)
        loss = functional.mse_loss(out, y)
        loss = loss + sum(each.square().sum() for each in net.parameters()) * 1e-3
        loss += 0.1 * out.abs().max()
        total += loss.detach()
        optimizer.zero_grad()
        loss.backward()
        for each in net.parameters():
            assert each.grad is not None
            each.grad *= 0.5
            each.grad.add_(0.01 * each.detach())
        optimizer.step()
    return weights(net), scale.detach().clone(), total


@TRAININGS.add
def inputs_that_are_overwritten() -> Any:
    """One buffer for all batches; the copies begin with the second step."""
    net = mlp()
    optimizer = _sgd(net)
    given = torch.empty(5, 4)
    for _ in range(4):
        for _ in range(2):
            x, y = batch()
            given.copy_(x)
            functional.mse_loss(net(given), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return weights(net)


@TRAININGS.add
def retained_graphs_and_backward_with_inputs() -> Any:
    net = mlp()
    optimizer = _sgd(net)
    for _ in range(3):
        x, y = batch()
        out = net(x)
        functional.mse_loss(out, y).backward(retain_graph=True)
        torch.autograd.backward([out], [torch.ones_like(out) * 0.1], inputs=[net[0].weight])
        optimizer.step()
        optimizer.zero_grad()
    return weights(net)


@TRAININGS.add
def gradients_of_the_last_step_are_kept() -> Any:
    net = mlp()
    optimizer = _sgd(net)
    for number in range(4):
        x, y = batch()
        functional.mse_loss(net(x), y).backward()
        optimizer.step()
        if number % 2:
            optimizer.zero_grad()
    return weights(net)


@TRAININGS.add
def a_siamese_loss_module() -> Any:
    net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    criterion = nn.TripletMarginLoss()
    optimizer = torch.optim.AdamW(net.parameters(), foreach=True)
    for _ in range(3):
        a, b, c = (torch.randn(5, 4) for _ in range(3))
        criterion(net(a), net(b), net(c)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    return weights(net)


@TRAININGS.add
def scripted_and_traced_modules() -> Any:
    scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))
    found = [fit(scripted, _sgd(scripted), batch)]
    net = mlp()
    out = net(batch()[0])
    traced = torch.jit.trace(net, batch()[0])
    code = traced.code
    out.sum().backward()
    return found, fit(traced, _sgd(traced), batch), code


class Halved(torch.autograd.Function):
    """A loss that is not a function of torch: modules are executed again without it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.square().mean() / 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0].expand(5, 2) * 0.3


@TRAININGS.add
def modules_in_a_row_with_an_unknown_loss() -> Any:
    encoder = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.2))
    decoder = nn.Linear(4, 2)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()])
    for _ in range(5):
        for _ in range(2):
            hidden = encoder(encoder(encoder(batch()[0])))
            loss: Any = Halved.apply(decoder(hidden) + decoder(hidden * 2))
            (loss + hidden.abs().mean()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return weights(encoder, decoder)


@TRAININGS.add
def an_evaluation_with_gradients() -> Any:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = _sgd(net)
    found = []
    for _ in range(3):
        found.append(fit(net, optimizer, batch, steps=1))
        net.eval()
        found += [net(batch()[0]).detach() for _ in range(4)]
        net.train()
    return found
