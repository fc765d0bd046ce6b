"""Small trainings of four steps, each with something that a file must keep; return a weight."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy


def _train(model: nn.Module, loss_of: Callable[[nn.Module], torch.Tensor], **kwargs: Any) -> Any:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(4):
        optimizer.zero_grad(set_to_none=kwargs.get("set_to_none", True))
        for _ in range(kwargs.get("micro_batches", 1)):
            loss_of(model).backward()
        if kwargs.get("clips"):
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    return next(model.parameters()).detach().clone()


def dropout_and_batch_norm() -> Any:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(64, 5),
    )
    return _train(
        model,
        lambda net: cross_entropy(net(torch.randn(6, 3, 6, 6)), torch.randint(0, 5, (6,))),
    )


def channels_last() -> Any:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = model.to(memory_format=torch.channels_last)
    return _train(
        model,
        lambda net: (
            net(torch.randn(6, 3, 8, 8).to(memory_format=torch.channels_last)).pow(2).mean()
        ),
    )


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(17, 8)
        self.head = nn.Linear(8, 17, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens).cumsum(1))


def tied_weights() -> Any:
    def loss(net: nn.Module) -> torch.Tensor:
        tokens = torch.randint(0, 17, (4, 9))
        logits = net(tokens[:, :-1])  # inputs and targets share memory
        return cross_entropy(logits.reshape(-1, 17), tokens[:, 1:].reshape(-1))

    return _train(Tied(), loss)


class Batch(NamedTuple):
    x: torch.Tensor
    scale: float


@dataclass
class Result:
    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...]


class Structured(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Linear(4, 4)
        self.calls = 0
        self.seen: list[int] = []

    def forward(self, batch: Any, *, options: dict[str, Any], mask: np.ndarray[Any, Any]) -> Any:
        self.calls += 1
        self.seen.append(self.calls)
        noise = float(np.random.rand()) + len(self.seen) / 10
        hidden = self.inside(batch.x) * batch.scale * options["gain"][0] + noise
        return Result(hidden * torch.from_numpy(mask), (hidden, batch.x))


def structured_arguments() -> Any:
    def loss(net: nn.Module) -> torch.Tensor:
        options = OrderedDict(gain=(torch.rand(1), "text", None))
        result = net(Batch(torch.randn(5, 4), 0.5), options=options, mask=np.ones(4, np.float32))
        return result.logits.square().mean() + result.hidden[0].abs().sum()

    return _train(Structured(), loss)


def autocast() -> Any:
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    def loss(net: nn.Module) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            out = net(torch.randn(7, 8))
            return criterion(out, torch.randint(0, 3, (7,)))

    return _train(model, loss)


def accumulation_and_clipping() -> Any:
    model = nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.2), nn.Linear(5, 1))
    return _train(
        model,
        lambda net: net(torch.randn(8, 5)).mean() / 3,
        micro_batches=3,
        clips=True,
        set_to_none=False,
    )


def lstm() -> Any:
    model = nn.LSTM(4, 6, num_layers=2, dropout=0.2, batch_first=True)
    return _train(model, lambda net: net(torch.randn(3, 7, 4))[0].square().mean())


def two_networks() -> Any:
    torch.manual_seed(1)
    first, second = nn.Linear(4, 6), nn.Sequential(nn.Tanh(), nn.Linear(6, 1))
    both = nn.ModuleList([first, second])
    return _train(both, lambda _: second(first(torch.randn(5, 4))).square().sum())


def sparse_gradients() -> Any:
    model = nn.Embedding(30, 4, sparse=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randint(0, 30, (6,))).square().sum().backward()
        optimizer.step()
    return model.weight.detach().clone()


NETS: dict[str, Callable[[], Any]] = {
    "dropout and batch norm": dropout_and_batch_norm,
    "channels last": channels_last,
    "tied weights": tied_weights,
    "structured arguments": structured_arguments,
    "autocast": autocast,
    "accumulation and clipping": accumulation_and_clipping,
    "lstm": lstm,
    "two networks": two_networks,
    "sparse gradients": sparse_gradients,
}
