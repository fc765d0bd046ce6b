"""Trainings of networks of many kinds."""

from __future__ import annotations

import copy
from typing import Any

import torch
from tests.adapters.torch.fitting import Trainings, batch, fit, mlp, weights
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

TRAININGS = Trainings()


@TRAININGS.add
def an_mlp() -> Any:
    net = mlp()
    return fit(net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), batch)


@TRAININGS.add
def a_cnn_with_batch_norm_and_dropout() -> Any:
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Dropout(0.3),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 3),
    )
    return fit(
        net,
        torch.optim.Adam(net.parameters()),
        lambda: (torch.randn(4, 1, 8, 8), torch.randint(3, (4,))),
        functional.cross_entropy,
    )


@TRAININGS.add
def a_transformer() -> Any:
    net = nn.Sequential(
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), nn.Linear(8, 2)
    )
    return fit(
        net,
        torch.optim.AdamW(net.parameters()),
        lambda: (torch.randn(2, 5, 8), torch.randn(2, 5, 2)),
    )


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.cell = kind(3, 4, num_layers=2, dropout=0.2, batch_first=True)
        self.out = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.cell(x)[0])


def _recurrent(kind: type[nn.RNNBase]) -> Any:
    net = Recurrent(kind)
    return fit(
        net,
        torch.optim.RMSprop(net.parameters()),
        lambda: (torch.randn(2, 6, 3), torch.randn(2, 6, 1)),
    )


@TRAININGS.add
def an_rnn() -> Any:
    return _recurrent(nn.RNN)


@TRAININGS.add
def an_lstm() -> Any:
    return _recurrent(nn.LSTM)


def _checkpointed(use_reentrant: bool) -> Any:
    net = nn.ModuleList(
        [nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.2), nn.Tanh()) for _ in range(2)]
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        x = torch.randn(3, 4, requires_grad=True)
        optimizer.zero_grad()
        for block in net:
            x = checkpoint(block, x, use_reentrant=use_reentrant)
        loss = x.square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, weights(net)]


@TRAININGS.add
def checkpointing_with_reentry() -> Any:
    return _checkpointed(True)


@TRAININGS.add
def checkpointing_without_reentry() -> Any:
    return _checkpointed(False)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.blocks = [nn.Linear(4, 4)]
        self.table = {"up": nn.Linear(4, 4)}
        self.extra = nn.ParameterList([self.blocks[0].weight, self.table["up"].weight])
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight
        self.scale = torch.tensor(0.5)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embed(x) * self.scale + self.shift
        for _ in range(2):
            h = torch.tanh(self.blocks[0](h))
        return self.head(self.table["up"](h))


@TRAININGS.add
def tied_weights_and_modules_in_plain_lists() -> Any:
    net = Tied()
    return fit(
        net,
        torch.optim.SGD(net.parameters(), lr=0.1),
        lambda: (torch.randint(7, (3, 2)), torch.randint(7, (3, 2))),
        lambda output, y: functional.cross_entropy(output.flatten(0, 1), y.flatten()),
    )


@TRAININGS.add
def parametrizations() -> Any:
    net = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
        nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
        nn.utils.parametrizations.orthogonal(nn.Linear(4, 2, bias=False)),
    )
    return fit(net, torch.optim.SGD(net.parameters(), lr=0.1), batch)


@TRAININGS.add
def hooks_of_the_program() -> Any:
    net = mlp()
    seen: list[float] = []
    net[0].register_forward_hook(lambda m, a, out: out * 1.5)
    net[2].register_forward_pre_hook(lambda m, a: (a[0] + 1,))
    net[2].register_full_backward_hook(lambda m, gi, go: seen.append(go[0].sum().item()))
    net[0].weight.register_hook(lambda g: g * 0.5)
    net[2].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
    return [seen, fit(net, torch.optim.SGD(net.parameters(), lr=0.1), batch)]


@TRAININGS.add
def a_scripted_module() -> Any:
    net = nn.Sequential(torch.jit.script(mlp()), nn.Linear(2, 2))
    return fit(net, torch.optim.SGD(net.parameters(), lr=0.1), batch)


@TRAININGS.add
def averaged_and_copied_models() -> Any:
    net = mlp()
    average = torch.optim.swa_utils.AveragedModel(net)
    other = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    results = []
    for _ in range(3):
        results.append(fit(net, optimizer, batch, steps=1))
        schedule.step()
        average.update_parameters(net)
        other.load_state_dict(net.state_dict())
        results.append(other(batch()[0]).detach())
    return [results, weights(average, other)]
