"""Small networks of well-known shapes in which a fault can be planted, and dumps of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from benchmarks import nets
from tests.adapters.torch.dumping import dump_of
from torch import nn
from torch.nn import functional

from sonde.dump.reader import Dump


def half() -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16)


def _residual(block: nets.Residual, x: torch.Tensor, fault: str) -> torch.Tensor:
    """What a block of the ResNet computes with ``fault``."""
    y = block.bn1(block.conv1(x))
    y = functional.gelu(y) if fault == "activation" else functional.relu(y)
    with half() if fault == "bfloat16" else nullcontext():
        y = block.conv2(y)
    y = block.bn2(y.float() if fault == "bfloat16" else y)
    return functional.relu(y if fault == "residual" else y + block.short(x))


def _transformer(block: nets.Block, x: torch.Tensor, fault: str) -> torch.Tensor:
    """What a block of the GPT computes with ``fault``."""
    x = block.attend(x)
    with half() if fault == "bfloat16" else nullcontext():
        y = block.fc(block.ln2(x))
    y = y.float() if fault == "bfloat16" else y
    y = block.out(functional.gelu(y, approximate="tanh" if fault == "activation" else "none"))
    return y if fault == "residual" else x + y


def resnet(fault: str = "") -> Callable[[], None]:
    """A training of the ResNet whose block 3 has the fault; the network is made here."""
    torch.manual_seed(0)
    net = nets.ResNet18(5, (8, 8, 12, 12, 16, 16, 24, 24))
    images, labels = torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,))
    _plant(net.layers[3], fault, _residual, "conv2", "bn2")
    return lambda: _train(net, fault, lambda: functional.cross_entropy(net(images), labels))


def gpt(fault: str = "") -> Callable[[], None]:
    """A training of the GPT whose block 2 has the fault; the network is made here."""
    torch.manual_seed(0)
    net = nets.GPT(16, 2, 40, 12)
    tokens = torch.randint(0, 40, (2, 12))
    _plant(net.blocks[2], fault, _transformer, "fc", "ln2")

    def loss_of() -> torch.Tensor:
        return functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten())

    return lambda: _train(net, fault, loss_of)


def _plant(
    block: Any, fault: str, compute: Callable[..., torch.Tensor], linear: str, norm: str
) -> None:
    if fault in ("activation", "bfloat16", "residual"):
        block.forward = lambda x: compute(block, x, fault)
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
