"""Micro-batches that do not add up to the gradient of the batch in one piece."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from tests.adapters.torch.ranks.planted import STEPS, Fault, Training, batches, net
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def _train(rank: int, *, divisor: float, is_uneven: bool, reduction: str = "mean") -> None:
    """Three micro-batches a step; in uneven ones half of the second has no targets."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = batches(rank, 3 * STEPS)
    for first in range(0, len(data), 3):
        parts = data[first : first + 3]
        if is_uneven:
            parts[1][1][:10] = -100
        total = sum(int((y != -100).sum()) for _, y in parts)
        optimizer.zero_grad()
        for number, (x, y) in enumerate(parts):
            with model.no_sync() if number < 2 else nullcontext():
                loss = cross_entropy(model(x), y, reduction=reduction)
                (loss / (total if reduction == "sum" else divisor)).backward()
        optimizer.step()


def means_of_uneven_micro_batches(rank: int, world: int) -> None:
    _train(rank, divisor=3, is_uneven=True)


def micro_batches_added_up(rank: int, world: int) -> None:
    _train(rank, divisor=1, is_uneven=False)


def uneven_micro_batches_by_targets(rank: int, world: int) -> None:
    _train(rank, divisor=1, is_uneven=True, reduction="sum")


def even_micro_batches(rank: int, world: int) -> None:
    _train(rank, divisor=3, is_uneven=False)


def two_losses(rank: int, world: int) -> None:
    """Two terms of one loss have a backward pass each."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for x, y in batches(rank):
        optimizer.zero_grad()
        out = model(x)
        with model.no_sync():
            cross_entropy(out, y).backward(retain_graph=True)
        cross_entropy(model(-x), 3 - y).backward()
        optimizer.step()


FAULTS = {
    "means_of_uneven_micro_batches": Fault(
        means_of_uneven_micro_batches,
        "accumulation-mean-of-means",
        (0, 1),
        code="else divisor)).backward()",
        text="means over 6 to 16 targets",
    ),
    "micro_batches_added_up": Fault(
        micro_batches_added_up,
        "accumulation-not-divided",
        (0, 1),
        code="else divisor)).backward()",
        text="3 times that of",
    ),
}
CONTROLS: dict[str, Training] = {
    each.__name__: each
    for each in (uneven_micro_batches_by_targets, even_micro_batches, two_losses)
}
