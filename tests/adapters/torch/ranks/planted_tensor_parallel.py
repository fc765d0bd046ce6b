"""Tensor parallelism by hand, with the attributes of Megatron: faults and healthy trainings."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from tests.adapters.torch.ranks.planted import Training, batches
from torch import nn


class CopyToShards(torch.autograd.Function):
    """Gives a replicated value to the shards; the backward pass adds up what they give back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        gradient = gradients[0].clone()
        dist.all_reduce(gradient)
        return gradient


class SumOfShards(torch.autograd.Function):
    """Adds up what the shards computed; each gets the whole gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0]


class ShardedLinear(nn.Module):
    """``dim`` 0: the outputs are sharded, 1: the inputs, as in Megatron."""

    def __init__(self, inputs: int, outputs: int, dim: int, *, seed: int, reduces: bool) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(seed)
        parts = dist.get_world_size()
        shape = (outputs // parts, inputs) if dim == 0 else (outputs, inputs // parts)
        self.weight = nn.Parameter(torch.randn(*shape, generator=random) / inputs**0.5)
        mark: Any = self.weight
        mark.tensor_model_parallel, mark.partition_dim = True, dim
        self.dim, self.reduces = dim, reduces

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.dim == 0:
            given: Any = CopyToShards.apply(x) if self.reduces else x
            return torch.nn.functional.linear(given, self.weight)
        summed: Any = SumOfShards.apply(torch.nn.functional.linear(x, self.weight))
        return summed


class Block(nn.Module):
    def __init__(self, rank: int, *, same_seed: bool, reduces: bool, drop: float) -> None:
        super().__init__()
        seed = 7 if same_seed else 7 + rank
        self.norm = nn.LayerNorm(8)
        self.drop = nn.Dropout(drop)
        self.up = ShardedLinear(8, 16, 0, seed=seed, reduces=reduces)
        self.down = ShardedLinear(16, 4, 1, seed=seed + 50, reduces=reduces)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.up(self.drop(self.norm(x))).relu()
        down: torch.Tensor = self.down(hidden)
        return down


def _train(
    rank: int, *, same_seed: bool = False, reduces: bool = True, drop: float = 0.0, seed: int = 3
) -> None:
    torch.manual_seed(0)
    model = Block(rank, same_seed=same_seed, reduces=reduces, drop=drop)
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches(0):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def same_shard_initialisation(rank: int, world: int) -> None:
    _train(rank, same_seed=True)


def missing_backward_reduction(rank: int, world: int) -> None:
    """The norm is replicated; nothing adds up the gradients that the shards give back to it."""
    _train(rank, reduces=False)


def dropout_with_other_random_numbers(rank: int, world: int) -> None:
    _train(rank, drop=0.2, seed=3 + rank)


def branch_on_the_rank(rank: int, world: int) -> None:
    torch.manual_seed(0)
    model = Block(rank, same_seed=False, reduces=True, drop=0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches(0):
        optimizer.zero_grad()
        out = model(x)
        if rank == 1:
            out = out * 1.0
        torch.nn.functional.cross_entropy(out, y).backward()
        optimizer.step()


def sharded_by_hand(rank: int, world: int) -> None:
    _train(rank, drop=0.2)


FAULTS: dict[str, tuple[Training, str, str]] = {
    "same_shard_initialisation": (same_shard_initialisation, "shards-equal", "up.weight"),
    "missing_backward_reduction": (
        missing_backward_reduction,
        "replicated-gradient-not-reduced",
        "norm.weight",
    ),
    "dropout_with_other_random_numbers": (
        dropout_with_other_random_numbers,
        "random-states-differ",
        "drop",
    ),
    "branch_on_the_rank": (branch_on_the_rank, "ops-differ", "Mul"),
}
CONTROLS: dict[str, Training] = {"sharded_by_hand": sharded_by_hand}
