"""Gradients that the ranks clip differently, and all ways to clip them alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from tests.adapters.torch.ranks.planted import Fault, Training, batches, net
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def _train(rank: int, model: nn.Module, clip: Callable[[Any], object]) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        clip(model)
        optimizer.step()


def limits_of_layers_differ(rank: int, world: int) -> None:
    def clip(model: Any) -> None:
        for number, layer in enumerate((model.module[0], model.module[2])):
            limit = 0.02 if rank == 1 and number == 1 else 0.01
            nn.utils.clip_grad_norm_(layer.parameters(), limit)

    _train(rank, DistributedDataParallel(net()), clip)


def ranks_clip_other_layers(rank: int, world: int) -> None:
    """The layer that is clipped first must not be taken for all that the optimizer has."""

    def clip(model: Any) -> None:
        nn.utils.clip_grad_norm_(model.module[2 * rank].parameters(), max_norm=0.01)

    _train(rank, DistributedDataParallel(net()), clip)


def values_clipped_on_one_rank(rank: int, world: int) -> None:
    def clip(model: nn.Module) -> None:
        if rank == 1:
            nn.utils.clip_grad_value_(model.parameters(), 0.01)

    _train(rank, DistributedDataParallel(net()), clip)


def values_clipped_to_other_limits(rank: int, world: int) -> None:
    def clip(model: nn.Module) -> None:
        nn.utils.clip_grad_value_(model.parameters(), clip_value=0.01 / (1 + rank))

    _train(rank, DistributedDataParallel(net()), clip)


def norm_of_local_shards(rank: int, world: int) -> None:
    model = net()
    fully_shard(model)

    def clip(model: nn.Module) -> None:
        shards: list[Any] = [each.grad for each in model.parameters()]
        norm = nn.utils.get_total_norm([each.to_local() for each in shards])
        nn.utils.clip_grads_with_norm_(model.parameters(), 0.01, norm)

    _train(rank, model, clip)


def clipped_layer_by_layer(rank: int, world: int) -> None:
    def clip(model: Any) -> None:
        for layer in (model.module[0], model.module[2]):
            nn.utils.clip_grad_norm_(layer.parameters(), 0.01, foreach=True)

    _train(rank, DistributedDataParallel(net()), clip)


def values_clipped(rank: int, world: int) -> None:
    def clip(model: nn.Module) -> None:
        nn.utils.clip_grad_value_(model.parameters(), 0.01, foreach=True)

    _train(rank, DistributedDataParallel(net()), clip)


def fsdp_clipped_by_any_norm(rank: int, world: int) -> None:
    """The maximum is returned as a DTensor of which each rank has its part."""
    model = net()
    fully_shard(model)

    def clip(model: nn.Module) -> None:
        for norm_type, foreach in ((math.inf, None), (2.0, True), (2.0, False), (1.0, None)):
            nn.utils.clip_grad_norm_(model.parameters(), 0.01, norm_type, foreach=foreach)

    _train(rank, model, clip)


FAULTS = {
    "limits_of_layers_differ": Fault(
        limits_of_layers_differ,
        "clip-norms-differ",
        (1,),
        code="clip_grad_norm_(layer.parameters(), limit)",
        text="0.02 on rank 1 at",
    ),
    "ranks_clip_other_layers": Fault(
        ranks_clip_other_layers, "clip-norms-differ", (1,), code="max_norm=0.01"
    ),
    "values_clipped_on_one_rank": Fault(
        values_clipped_on_one_rank,
        "clip-on-one-rank",
        (1,),
        code="clip_grad_value_(",
        text="on rank 1 (once",
    ),
    "values_clipped_to_other_limits": Fault(
        values_clipped_to_other_limits,
        "clip-norms-differ",
        (1,),
        code="clip_grad_value_(",
        text="0.005 on rank 1 at",
    ),
    "norm_of_local_shards": Fault(
        norm_of_local_shards, "clip-norms-differ", (1,), code="clip_grads_with_norm_("
    ),
}
CONTROLS: dict[str, Training] = {
    each.__name__: each
    for each in (clipped_layer_by_layer, values_clipped, fsdp_clipped_by_any_norm)
}
