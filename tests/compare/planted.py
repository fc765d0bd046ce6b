"""Small networks of well-known shapes in which a fault can be planted, and dumps of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from tests.adapters.dumping import dump_of
from torch import nn
from torch.nn import functional

from sonde.dump.reader import Dump


def half() -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16)


class Residual(nn.Module):
    """A block of ResNet-18; ``fault`` is what is wrong with it."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.fault = ""
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.short = nn.Sequential()
        if stride != 1 or inside != outside:
            self.short = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn1(self.conv1(x))
        y = functional.gelu(y) if self.fault == "activation" else functional.relu(y)
        with half() if self.fault == "bfloat16" else nullcontext():
            y = self.conv2(y)
        y = self.bn2(y.float() if self.fault == "bfloat16" else y)
        return functional.relu(y if self.fault == "residual" else y + self.short(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        widths = (8, 8, 12, 12, 16, 16, 24, 24)
        before = (8, *widths[:-1])
        self.layers = nn.Sequential(
            *(Residual(a, b, 2 if a != b else 1) for a, b in zip(before, widths, strict=True))
        )
        self.head = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(functional.relu(self.bn(self.conv(x))))
        return self.head(x.mean((2, 3)))


class Block(nn.Module):
    """A block of GPT; ``fault`` is what is wrong with it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.fault = ""
        self.heads = heads
        self.ln1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.out = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.ln1(x)).split(width, 2)
        )
        score = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        score = score.masked_fill(mask, -1e9).softmax(-1)
        x = x + self.proj((score @ v).transpose(1, 2).reshape(batch, length, width))
        with half() if self.fault == "bfloat16" else nullcontext():
            y = self.fc(self.ln2(x))
        y = y.float() if self.fault == "bfloat16" else y
        kind = "tanh" if self.fault == "activation" else "none"
        y = self.out(functional.gelu(y, approximate=kind))
        return y if self.fault == "residual" else x + y


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(40, 16)
        self.position = nn.Embedding(12, 16)
        self.blocks = nn.ModuleList(Block(16, 2) for _ in range(4))
        self.ln = nn.LayerNorm(16)
        self.head = nn.Linear(16, 40)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def resnet(fault: str = "") -> Callable[[], None]:
    """A training of the ResNet whose block 3 has the fault; the network is made here."""
    torch.manual_seed(0)
    net = ResNet()
    images, labels = torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,))
    _plant(net.layers[3], fault, "conv2", "bn2")
    return lambda: _train(net, fault, lambda: functional.cross_entropy(net(images), labels))


def gpt(fault: str = "") -> Callable[[], None]:
    """A training of the GPT whose block 2 has the fault; the network is made here."""
    torch.manual_seed(0)
    net = GPT()
    tokens = torch.randint(0, 40, (2, 12))
    _plant(net.blocks[2], fault, "fc", "ln2")

    def loss_of() -> torch.Tensor:
        return functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten())

    return lambda: _train(net, fault, loss_of)


def _plant(block: Any, fault: str, linear: str, norm: str) -> None:
    block.fault = fault
    if fault == "weight":
        with torch.no_grad():
            getattr(block, linear).weight.mul_(1.001)
    elif fault == "eps":
        getattr(block, norm).eps = 1e-3


def _train(net: nn.Module, fault: str, loss_of: Callable[[], torch.Tensor]) -> None:
    rate = 0.11 if fault == "rate" else 0.1
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        with half() if fault == "autocast" else nullcontext():
            loss = loss_of()
        loss.backward()
        optimizer.step()


def dumped(place: Path, train: Callable[[], Any], **options: Any) -> Dump:
    """A training, dumped; ``place`` must not be there yet."""
    dump_of(place, train, **options)
    return Dump(place)
