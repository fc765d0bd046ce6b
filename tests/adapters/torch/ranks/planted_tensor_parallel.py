"""Tensor parallelism by hand, with the attributes of Megatron: faults and healthy trainings."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from tests.adapters.torch.ranks.planted import Fault, Training, batches
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
    """``places``: where a function drops values, of the input or of the sharded hidden values."""

    def __init__(
        self, rank: int, *, same_seed: bool, reduces: bool, drop: float, places: str = ""
    ) -> None:
        super().__init__()
        self.places = places
        seed = 7 if same_seed else 7 + rank
        self.norm = nn.LayerNorm(8)
        self.drop = nn.Dropout(drop)
        self.up = ShardedLinear(8, 16, 0, seed=seed, reduces=reduces)
        self.down = ShardedLinear(16, 4, 1, seed=seed + 50, reduces=reduces)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "input" in self.places:
            x = torch.nn.functional.dropout(x, 0.2, self.training)
        hidden: torch.Tensor = self.up(self.drop(self.norm(x))).relu()
        if "hidden" in self.places:
            hidden = torch.nn.functional.dropout(hidden, 0.2, self.training)
        down: torch.Tensor = self.down(hidden)
        return down


def _train(
    rank: int,
    *,
    same_seed: bool = False,
    reduces: bool = True,
    drop: float = 0.0,
    seed: int = 3,
    places: str = "",
) -> None:
    torch.manual_seed(0)
    model = Block(rank, same_seed=same_seed, reduces=reduces, drop=drop, places=places)
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


def functional_dropout_with_other_random_numbers(rank: int, world: int) -> None:
    _train(rank, places="input", seed=3 + rank)


def functional_dropout_of_shards(rank: int, world: int) -> None:
    """All ranks drop their shards at the same places."""
    _train(rank, places="hidden")


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


def functional_dropout(rank: int, world: int) -> None:
    """Of values that the ranks replicate, with the same random numbers; of shards with others."""
    _train(rank, places="input")
    _train(rank, places="hidden", seed=3 + rank)


def sharded_by_hand(rank: int, world: int) -> None:
    _train(rank, drop=0.2)


def _clipping(rank: int, *, counts_once: bool) -> None:
    torch.manual_seed(0)
    model = Block(rank, same_seed=False, reduces=True, drop=0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches(0):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        total = torch.zeros(())
        for each in model.parameters():
            is_shard = hasattr(each, "tensor_model_parallel")
            if each.grad is not None and (is_shard or rank == 0 or not counts_once):
                total += each.grad.square().sum()
        dist.all_reduce(total)
        nn.utils.clip_grads_with_norm_(model.parameters(), 0.01, total.sqrt())
        optimizer.step()


def replicated_counted_twice(rank: int, world: int) -> None:
    """Each rank adds the gradients of the norm, which all have, to the norm that is summed up."""
    _clipping(rank, counts_once=False)


def clipped_by_the_whole_norm(rank: int, world: int) -> None:
    _clipping(rank, counts_once=True)


FAULTS = {
    "replicated_counted_twice": Fault(
        replicated_counted_twice, "clip-norm-wrong", (0, 1), code="nn.utils.clip_grads_with_norm_"
    ),
    "same_shard_initialisation": Fault(
        same_shard_initialisation, "shards-equal", (0, 1), "up.weight", text="2 of 2"
    ),
    "missing_backward_reduction": Fault(
        missing_backward_reduction, "replicated-gradient-not-reduced", (0, 1), "norm.weight"
    ),
    "dropout_with_other_random_numbers": Fault(
        dropout_with_other_random_numbers, "random-states-differ", (1,), "drop"
    ),
    "functional_dropout_with_other_random_numbers": Fault(
        functional_dropout_with_other_random_numbers,
        "random-states-differ",
        (1,),
        code="x = torch.nn.functional.dropout(x",
        text="for dropout at planted_tensor_parallel.py",
    ),
    "functional_dropout_of_shards": Fault(
        functional_dropout_of_shards,
        "random-states-equal",
        (0, 1),
        code="hidden = torch.nn.functional.dropout(hidden",
    ),
    "branch_on_the_rank": Fault(
        branch_on_the_rank, "ops-differ", (1,), code="backward()", text="Mul 16x4 on rank 1"
    ),
}
CONTROLS: dict[str, Training] = {
    "sharded_by_hand": sharded_by_hand,
    "functional_dropout": functional_dropout,
    "clipped_by_the_whole_norm": clipped_by_the_whole_norm,
}
