"""The networks every benchmark trains, with random data: ``(module, batch, loss function)``.

- ``resnet18``: ResNet-18 for CIFAR-sized images, batch 32;
- ``gpt``: four layers, width 256, sequence 128, batch 8;
- ``tiny_gpt``: the same with tiny tensors, which shows the fixed cost per op.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional

Batch = tuple[torch.Tensor, torch.Tensor]
Net = tuple[nn.Module, Batch, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]


class Residual(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
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
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.short(x))


class ResNet18(nn.Module):
    def __init__(
        self, classes: int = 10, widths: Sequence[int] = (64, 64, 128, 128, 256, 256, 512, 512)
    ) -> None:
        super().__init__()
        first, last = widths[0], widths[-1]
        self.conv = nn.Conv2d(3, first, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(first)
        before = (first, *widths[:-1])
        self.layers = nn.Sequential(
            *(Residual(a, b, 2 if a != b else 1) for a, b in zip(before, widths, strict=True))
        )
        self.head = nn.Linear(last, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(functional.relu(self.bn(self.conv(x))))
        return self.head(x.mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.out = nn.Linear(4 * width, width)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.ln1(x)).split(width, 2)
        )
        score = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        score = score.masked_fill(mask, -1e9).softmax(-1)
        return x + self.proj((score @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.attend(x)
        return x + self.out(functional.gelu(self.fc(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, width: int, heads: int, words: int, length: int, layers: int = 4) -> None:
        super().__init__()
        self.token = nn.Embedding(words, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def _language_loss(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def resnet18(batch: int = 32) -> Net:
    torch.manual_seed(0)
    images, labels = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
    return ResNet18(), (images, labels), functional.cross_entropy


def gpt(batch: int = 8) -> Net:
    torch.manual_seed(0)
    tokens = torch.randint(0, 1000, (batch, 128))
    return GPT(256, 4, 1000, 128), (tokens, tokens), _language_loss


def tiny_gpt() -> Net:
    torch.manual_seed(0)
    tokens = torch.randint(0, 16, (1, 4))
    return GPT(8, 2, 16, 4), (tokens, tokens), _language_loss


NETS: dict[str, Callable[[], Net]] = {"gpt": gpt, "resnet": resnet18, "tiny": tiny_gpt}


def trainer(net: Net) -> Callable[[], float]:
    """A function that trains one step and returns the loss."""
    module, (inputs, targets), loss_function = net
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_function(module(inputs), targets)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step
