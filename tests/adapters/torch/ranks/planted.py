"""Trainings on two ranks with one fault each, and healthy ones, written as users write them."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

STEPS = 8
Training = Callable[[int, int], None]


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def batches(rank: int, steps: int = STEPS) -> list[tuple[torch.Tensor, torch.Tensor]]:
    random = torch.Generator().manual_seed(100 + rank)
    return [
        (torch.randn(16, 8, generator=random), torch.randint(0, 4, (16,), generator=random))
        for _ in range(steps)
    ]


def average(model: nn.Module, *, divide: bool = True, skip: str = "") -> None:
    for name, parameter in model.named_parameters():
        if name == skip or parameter.grad is None:
            continue
        dist.all_reduce(parameter.grad)
        if divide:
            parameter.grad /= dist.get_world_size()


def train(model: nn.Module, data: list[tuple[torch.Tensor, torch.Tensor]], lr: float = 0.1) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for x, y in data:
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


# ------------------------------------------------------------------------ faults


def raw_module_called(rank: int, world: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model.module(x), y).backward()
        optimizer.step()


def parameter_replaced(rank: int, world: int) -> None:
    model = DistributedDataParallel(net(), find_unused_parameters=True)
    model.module[2].weight = nn.Parameter(model.module[2].weight.detach().clone())
    train(model, batches(rank))


def clip_on_one_rank(rank: int, world: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        if rank == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()


def lost_all_reduce(rank: int, world: int) -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        average(model, skip="2.bias")
        optimizer.step()


def different_seeds(rank: int, world: int) -> None:
    model = net(seed=rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        average(model)
        optimizer.step()


def summed_not_averaged(rank: int, world: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        average(model, divide=False)
        optimizer.step()


def last_micro_batch_only(rank: int, world: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = batches(rank, 2 * STEPS)
    for first in range(0, len(data), 2):
        for x, y in data[first : first + 2]:
            optimizer.zero_grad()
            (cross_entropy(model(x), y) / 2).backward()
        average(model)
        optimizer.step()


def no_sync_left_on(rank: int, world: int) -> None:
    model = DistributedDataParallel(net())
    with model.no_sync():
        train(model, batches(rank))


def same_data(rank: int, world: int) -> None:
    train(DistributedDataParallel(net()), batches(0))


def same_shards(rank: int, world: int) -> None:
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    torch.manual_seed(0)
    local = torch.randn(8, 8)
    weight = nn.Parameter(DTensor.from_local(local, mesh, [Shard(0)]))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for x, _ in batches(0):
        optimizer.zero_grad()
        (x @ weight.to_local().t()).pow(2).mean().backward()
        optimizer.step()


def replicated_gradient_not_reduced(rank: int, world: int) -> None:
    """Tensor parallelism by hand: the norm before the sharded layer gets a part of its gradient."""
    torch.manual_seed(0)
    norm = nn.LayerNorm(8)
    torch.manual_seed(10 + rank)
    part = nn.Linear(8, 4)
    optimizer = torch.optim.SGD([*norm.parameters(), *part.parameters()], lr=0.1)
    for x, _ in batches(0):
        optimizer.zero_grad()
        part(norm(x)).pow(2).mean().backward()
        optimizer.step()


def set_epoch_forgotten(rank: int, world: int) -> None:
    random = torch.Generator().manual_seed(0)
    data = TensorDataset(
        torch.randn(64, 8, generator=random), torch.randint(0, 4, (64,), generator=random)
    )
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()


def order_of_collectives(rank: int, world: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank, 3):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        count, best = torch.ones(1), torch.zeros(1)
        if rank == 0:
            dist.all_reduce(count)
            dist.all_reduce(best, op=dist.ReduceOp.MAX)
        else:
            dist.all_reduce(best, op=dist.ReduceOp.MAX)
            dist.all_reduce(count)
        average(model)
        optimizer.step()


def nan_on_one_rank(rank: int, world: int) -> None:
    data = batches(rank)
    if rank == 1:
        data[4][0][3, 2] = torch.inf
    train(DistributedDataParallel(net()), data)


def fsdp_of_size_one(rank: int, world: int) -> None:
    group = [dist.new_group([each]) for each in range(world)][rank]
    from torch.distributed.device_mesh import DeviceMesh

    mesh = DeviceMesh.from_group(group, "cpu")
    model = net()
    fully_shard(model, mesh=mesh)
    train(model, batches(rank))


def uneven_targets(rank: int, world: int) -> None:
    data = batches(rank)
    for _, y in data:
        y[: 12 if rank else 2] = -100
    train(DistributedDataParallel(net()), data)


def learning_rate_differs(rank: int, world: int) -> None:
    train(DistributedDataParallel(net()), batches(rank), lr=0.1 / (rank + 1))


def odd_rank(rank: int, world: int) -> None:
    data = [(40 * x if rank == 2 else x, y) for x, y in batches(rank, 12)]
    torch.manual_seed(0)
    train(DistributedDataParallel(nn.Linear(8, 4)), data, lr=1e-4)


FAULTS: dict[str, tuple[Training, str, str]] = {
    # Name: the training, the kind that is expected, and what must be in its message or places.
    "raw_module_called": (raw_module_called, "gradients-not-exchanged", "planted.py:"),
    "parameter_replaced": (parameter_replaced, "gradients-partly-exchanged", "2.weight"),
    "clip_on_one_rank": (clip_on_one_rank, "clip-on-some-ranks", "rank 1"),
    "lost_all_reduce": (lost_all_reduce, "gradients-partly-exchanged", "2.bias"),
    "different_seeds": (different_seeds, "replicas-differ-at-start", "0.weight"),
    "summed_not_averaged": (summed_not_averaged, "gradients-summed-not-averaged", "sum"),
    "last_micro_batch_only": (last_micro_batch_only, "only-last-micro-batch", "the last of 2"),
    "no_sync_left_on": (no_sync_left_on, "gradients-not-exchanged", "of their own"),
    "same_data": (same_data, "same-batch-on-ranks", "ranks 0-1"),
    "same_shards": (same_shards, "shards-equal", "ranks 0-1"),
    "replicated_gradient_not_reduced": (
        replicated_gradient_not_reduced,
        "gradients-not-exchanged",
        "differ",
    ),
    "set_epoch_forgotten": (set_epoch_forgotten, "set-epoch-missing", "planted.py:"),
    "order_of_collectives": (order_of_collectives, "collectives-differ", "planted.py:"),
    "nan_on_one_rank": (nan_on_one_rank, "non-finite-on-rank", "rank 1 made"),
    "fsdp_of_size_one": (fsdp_of_size_one, "gradients-not-exchanged", "differ"),
    "uneven_targets": (uneven_targets, "loss-weighted-by-rank", "rank 1"),
    "learning_rate_differs": (learning_rate_differs, "decisions-differ", "learning rate"),
}
FAULTS_OF_FOUR: dict[str, tuple[Training, str, str]] = {
    "odd_rank": (odd_rank, "odd-rank-out", "rank 2"),
}


# ----------------------------------------------------------------------- controls


def ddp(rank: int, world: int) -> None:
    train(DistributedDataParallel(net()), batches(rank))


def ddp_accumulating(rank: int, world: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = batches(rank, 2 * STEPS)
    for first in range(0, len(data), 2):
        optimizer.zero_grad()
        with model.no_sync():
            (cross_entropy(model(data[first][0]), data[first][1]) / 2).backward()
        (cross_entropy(model(data[first + 1][0]), data[first + 1][1]) / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.left, self.right = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, turn: bool) -> torch.Tensor:
        x = self.norm(x)
        return self.left(x) if turn else self.right(x)


def ddp_unused_and_batch_norm(rank: int, world: int) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(Branches(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(rank)):
        optimizer.zero_grad()
        cross_entropy(model(x, number % 2 == 0), y).backward()
        optimizer.step()


def fsdp(rank: int, world: int) -> None:
    model = net()
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def tensor_parallel(rank: int, world: int) -> None:
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    model = parallelize_module(net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train(model, batches(0))


def pipeline_by_hand(rank: int, world: int) -> None:
    """Each rank has one stage; activations and their gradients travel between them."""
    torch.manual_seed(rank)
    stage = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
    for x, _ in batches(0):
        optimizer.zero_grad()
        if rank == 0:
            out = stage(x)
            dist.send(out.detach(), 1)
            gradient = torch.empty_like(out)
            dist.recv(gradient, 1)
            out.backward(gradient)
        else:
            received = torch.empty(16, 8)
            dist.recv(received, 0)
            received.requires_grad_()
            stage(received).pow(2).mean().backward()
            dist.send(received.grad, 0)
        optimizer.step()


def ddp_compiled(rank: int, world: int) -> None:
    train(torch.compile(DistributedDataParallel(net()), backend="eager"), batches(rank))


def experts(rank: int, world: int) -> None:
    """A shared router under DDP, and experts that each rank has for itself."""
    router = DistributedDataParallel(net())
    torch.manual_seed(20 + rank)
    expert = nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*router.parameters(), *expert.parameters()], lr=0.1)
    for number, (x, y) in enumerate(batches(rank)):
        optimizer.zero_grad()
        out = router(x)
        if (number + rank) % 2:
            out = out + expert(out)
        cross_entropy(out, y).backward()
        optimizer.step()


def moving_average_and_logging(rank: int, world: int) -> None:
    model = DistributedDataParallel(net())
    shadow = copy.deepcopy(model.module)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for number, (x, y) in enumerate(batches(rank)):
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mean, now in zip(shadow.parameters(), model.parameters(), strict=True):
                mean.lerp_(now, 0.1)
        if rank == 0 and number % 3 == 0:
            model.eval()
            with torch.no_grad():
                print("loss", float(loss), float(model.module(x).mean()))
            model.train()


def loss_divided_by_ranks(rank: int, world: int) -> None:
    """A sum over ranks of losses that are divided by their number is a mean."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank):
        optimizer.zero_grad()
        (cross_entropy(model(x), y) / world).backward()
        average(model, divide=False)
        optimizer.step()


def hybrid_sharded(rank: int, world: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = net()
    fully_shard(model, mesh=mesh)
    train(model, batches(rank))


def tensor_and_data_parallel(rank: int, world: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = parallelize_module(net(), mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    train(model, batches(rank // 2))


def ddp_of_four(rank: int, world: int) -> None:
    train(DistributedDataParallel(net()), batches(rank, 12))


CONTROLS: dict[str, Training] = {
    each.__name__: each
    for each in (
        ddp,
        ddp_accumulating,
        ddp_unused_and_batch_norm,
        fsdp,
        tensor_parallel,
        pipeline_by_hand,
        ddp_compiled,
        experts,
        moving_average_and_logging,
        loss_divided_by_ranks,
    )
}
CONTROLS_OF_FOUR: dict[str, Training] = {
    each.__name__: each for each in (hybrid_sharded, tensor_and_data_parallel, ddp_of_four)
}
