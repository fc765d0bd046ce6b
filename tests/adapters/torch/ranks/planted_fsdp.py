"""FSDP2: gradients that are not the mean over ranks and micro-batches, and healthy trainings."""

from __future__ import annotations

from typing import Any

import torch
from tests.adapters.torch.ranks.planted import STEPS, Fault, Training, batches, train
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy


def _uneven(world: int, **more: Any) -> nn.Module:
    """Layers that are sharded one by one, and have sizes that the ranks cannot share evenly."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 13), nn.Tanh(), nn.Linear(13, 5), nn.LayerNorm(5))
    for layer in (model[0], model[2]):
        fully_shard(layer, **more)
    fully_shard(model, **more)
    return model


def _summing(model: Any) -> nn.Module:
    for module in (model[0], model[2], model):
        module.set_force_sum_reduction_for_comms(True)  # gloo cannot multiply as it adds.
        module.set_gradient_divide_factor(1.0)
    return model  # type: ignore[no-any-return]


def summed_by_fsdp(rank: int, world: int) -> None:
    train(_summing(_uneven(world)), batches(rank))


def last_micro_batch_of_fsdp(rank: int, world: int) -> None:
    """Gradients are set to zero before each micro-batch."""
    model = _uneven(world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = batches(rank, 2 * STEPS)
    for first in range(0, len(data), 2):
        for x, y in data[first : first + 2]:
            optimizer.zero_grad()
            (cross_entropy(model(x), y) / 2).backward()
        optimizer.step()


def uneven_fsdp(rank: int, world: int) -> None:
    train(_uneven(world), batches(rank))


def accumulating_fsdp(rank: int, world: int) -> None:
    """Gradients are exchanged after the last of two micro-batches."""
    model: Any = _uneven(world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = batches(rank, 2 * STEPS)
    for first in range(0, len(data), 2):
        optimizer.zero_grad()
        for number, (x, y) in enumerate(data[first : first + 2]):
            model.set_requires_gradient_sync(number == 1)
            (cross_entropy(model(x), y) / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()


def gradients_never_set_to_zero(rank: int, world: int) -> None:
    """The gradients of a step are there when the next one begins."""
    model = _uneven(world)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for x, y in batches(rank):
        cross_entropy(model(x), y).backward()
        optimizer.step()


def summed_by_hybrid_sharding(rank: int, world: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    train(_summing(_uneven(world, mesh=mesh)), batches(rank), lr=0.01)


def uneven_hybrid_sharding(rank: int, world: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    train(_uneven(world, mesh=mesh), batches(rank))


FAULTS = {
    "summed_by_fsdp": Fault(
        summed_by_fsdp,
        "gradients-summed-not-averaged",
        (0, 1),
        code="optimizer.step()",
        text="2 times their mean",
    ),
    "last_micro_batch_of_fsdp": Fault(
        last_micro_batch_of_fsdp,
        "only-last-micro-batch",
        (0, 1),
        code="optimizer.step()",
        text="the last of 2",
    ),
}
FAULTS_OF_FOUR = {
    "summed_by_hybrid_sharding": Fault(
        summed_by_hybrid_sharding,
        "gradients-summed-not-averaged",
        (0, 1, 2, 3),
        code="optimizer.step()",
        text="4 times their mean",
    ),
}
CONTROLS: dict[str, Training] = {
    each.__name__: each for each in (uneven_fsdp, accumulating_fsdp, gradients_never_set_to_zero)
}
CONTROLS_OF_FOUR: dict[str, Training] = {"uneven_hybrid_sharding": uneven_hybrid_sharding}
