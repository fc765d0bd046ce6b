"""Trainings on two ranks with one fault each, and healthy ones, written as users write them."""

from __future__ import annotations

import copy
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
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


@dataclass(frozen=True)
class Fault:
    """What must be found in a training: the kind, the ranks, the ``place`` (a tensor or module),
    the line that has ``code`` in it, and ``text`` in the message; empty: not asked for."""

    training: Training
    kind: str
    ranks: tuple[int, ...]
    place: str = ""
    code: str = ""
    text: str = ""

    def lines(self) -> set[str]:
        """Where ``code`` is, in the training or in the module that it is in."""
        found = set()
        for owner in (self.training, train, sys.modules[self.training.__module__]):
            file = os.path.basename(inspect.getsourcefile(owner) or "")
            source, first = inspect.getsourcelines(owner)
            start = max(first, 1)
            found = {f"{file}:{start + n}" for n, line in enumerate(source) if self.code in line}
            if found:
                break
        return found


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


def raw_module_called_later(rank: int, world: int) -> None:
    """After the first steps, which are all compared."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(rank, 24)):
        optimizer.zero_grad()
        cross_entropy((model if number < 8 else model.module)(x), y).backward()
        optimizer.step()


def exchange_left_out_once(rank: int, world: int) -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for number, (x, y) in enumerate(batches(rank, 12)):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        if number != 3:
            average(model)
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


def weight_decay_differs(rank: int, world: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1 * rank)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


def odd_rank(rank: int, world: int) -> None:
    data = [(40 * x if rank == 2 else x, y) for x, y in batches(rank, 12)]
    torch.manual_seed(0)
    train(DistributedDataParallel(nn.Linear(8, 4)), data, lr=1e-4)


def unscaled_on_one_rank(rank: int, world: int) -> None:
    """The input of a rank is not divided by 255; a norm hides that from the loss."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.LayerNorm(8), nn.Linear(8, 4))
    data = [(255 * x if rank == 3 else x, y) for x, y in batches(rank, 12)]
    train(DistributedDataParallel(model), data, lr=1e-4)


FAULTS = {
    "raw_module_called": Fault(
        raw_module_called, "gradients-not-exchanged", (0, 1), "0.weight", "optimizer.step()"
    ),
    "raw_module_called_later": Fault(
        raw_module_called_later,
        "gradients-not-exchanged",
        (0, 1),
        code="optimizer.step()",
        text="in step 10",
    ),
    "exchange_left_out_once": Fault(
        exchange_left_out_once, "replicas-differ", (1,), "0.weight", text="after step 3: 4 of 4"
    ),
    "parameter_replaced": Fault(
        parameter_replaced, "gradients-partly-exchanged", (0, 1), "2.weight", text="1 of 4"
    ),
    "clip_on_one_rank": Fault(
        clip_on_one_rank, "clip-on-one-rank", (1,), code="clip_grad_norm_", text="on rank 0 (once"
    ),
    "lost_all_reduce": Fault(
        lost_all_reduce, "gradients-partly-exchanged", (0, 1), "2.bias", "optimizer.step()"
    ),
    "different_seeds": Fault(
        different_seeds, "ranks-differ-at-init", (1,), "0.weight", text="4 of 4"
    ),
    "summed_not_averaged": Fault(
        summed_not_averaged,
        "gradients-summed-not-averaged",
        (0, 1),
        code="optimizer.step()",
        text="2 times their mean",
    ),
    "last_micro_batch_only": Fault(
        last_micro_batch_only,
        "only-last-micro-batch",
        (0, 1),
        code="optimizer.step()",
        text="the last of 2",
    ),
    "no_sync_left_on": Fault(no_sync_left_on, "gradients-not-exchanged", (0, 1), "2.weight"),
    "same_data": Fault(same_data, "same-batch-on-ranks", (0, 1), code="backward()"),
    "same_shards": Fault(same_shards, "shards-equal", (0, 1), "parameter_0"),
    "replicated_gradient_not_reduced": Fault(
        replicated_gradient_not_reduced, "gradients-not-exchanged", (0, 1), "LayerNorm.weight"
    ),
    "set_epoch_forgotten": Fault(
        set_epoch_forgotten, "sampler-same-order", (0,), code="for x, y in loader"
    ),
    "order_of_collectives": Fault(
        order_of_collectives, "collectives-differ", (1,), code="dist.all_reduce(best", text="(MAX)"
    ),
    "nan_on_one_rank": Fault(
        nan_on_one_rank, "non-finite-on-rank", (1,), code="model(x)", text="reached rank 0 through"
    ),
    "fsdp_of_size_one": Fault(fsdp_of_size_one, "gradients-not-exchanged", (0, 1), "0.weight"),
    "uneven_targets": Fault(
        uneven_targets, "loss-weighted-by-rank", (1,), code="backward()", text="3.5 times"
    ),
    "learning_rate_differs": Fault(
        learning_rate_differs,
        "decisions-differ",
        (1,),
        code="optimizer.step()",
        text="learning rate: 0.05 on",
    ),
    "weight_decay_differs": Fault(
        weight_decay_differs,
        "decisions-differ",
        (1,),
        code="optimizer.step()",
        text="weight_decay of the optimizer: 0.1 on rank 1, 0.0 on rank 0",
    ),
}
FAULTS_OF_FOUR = {
    "odd_rank": Fault(odd_rank, "odd-rank-out", (2,), code="backward()"),
    "unscaled_on_one_rank": Fault(
        unscaled_on_one_rank, "odd-rank-out", (3,), "0", text="of the output of 0 of rank 3 is"
    ),
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


def pipeline_schedule(rank: int, world: int) -> None:
    """Two stages of torch.distributed.pipelining, which are not alike, four micro-batches."""
    torch.manual_seed(rank)
    part = nn.Linear(8, 8) if rank == 0 else nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8))
    stage = PipelineStage(part, rank, world, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    for x, _ in batches(0):
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=x)
        optimizer.step()


def ddp_inductor(rank: int, world: int) -> None:
    train(torch.compile(DistributedDataParallel(net())), batches(rank))


def ddp_compiled(rank: int, world: int) -> None:
    train(torch.compile(DistributedDataParallel(net()), backend="eager"), batches(rank))


def experts(rank: int, world: int) -> None:
    """A shared router under DDP, and experts of each rank, of which the second has two."""
    router = DistributedDataParallel(net())
    torch.manual_seed(20 + rank)
    expert = nn.Sequential(*(nn.Linear(4, 4) for _ in range(1 + rank)))
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
        pipeline_schedule,
        ddp_compiled,
        experts,
        moving_average_and_logging,
        loss_divided_by_ranks,
    )
}
SLOW_CONTROLS: dict[str, Training] = {"ddp_inductor": ddp_inductor}
CONTROLS_OF_FOUR: dict[str, Training] = {
    each.__name__: each for each in (hybrid_sharded, tensor_and_data_parallel, ddp_of_four)
}
