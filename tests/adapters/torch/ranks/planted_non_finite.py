"""NaN and Inf over ranks: who has made them, where, and what gave them to other ranks."""

from __future__ import annotations

from typing import Any

import torch
from tests.adapters.torch.ranks.planted import Fault, average, batches, net
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


class Root(nn.Module):
    """The gradient of a square root is infinite at zero; ``layer``: whose bias gets it."""

    def __init__(self, layer: int = 2) -> None:
        super().__init__()
        self.inner, self.layer = net(), layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(x)
        return out + torch.sqrt((x[:, :4] * self.inner[self.layer].bias[:4]).abs())


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = net()

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(x)
        return out * (torch.log(weight) + 1)


def nan_in_a_logarithm(rank: int, world: int) -> None:
    """Rank 1 takes the logarithm of a negative number in step 6."""
    model = DistributedDataParallel(Weighted())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(rank)):
        optimizer.zero_grad()
        weight = torch.full((4,), -1.0 if rank == 1 and number == 6 else 1.0)
        cross_entropy(model(x, weight), y).backward()
        optimizer.step()


def nan_in_a_backward_pass(rank: int, world: int) -> None:
    """The loss stays finite: a gradient of rank 1 is not, at an input that is zero."""
    torch.manual_seed(0)
    model = DistributedDataParallel(Root())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(rank)):
        if rank == 1 and number == 3:
            x[0, 0] = 0.0
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


def nan_through_an_own_all_reduce(rank: int, world: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(rank)):
        if rank == 1 and number == 6:
            x[3, 2] = torch.nan
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        average(model)
        optimizer.step()


def nan_under_fsdp(rank: int, world: int) -> None:
    model = net()
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(rank)):
        if rank == 1 and number == 4:
            x[3, 2] = torch.nan
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


class Logarithm(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x.square() - 1e-9)


def nan_of_a_module_under_fsdp(rank: int, world: int) -> None:
    """Rank 1 takes the logarithm of a negative number in step 4."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8, bias=False), Logarithm(), nn.Linear(8, 4))
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for number, (x, y) in enumerate(batches(rank)):
        if rank == 1 and number == 4:
            x[3] = 0.0
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


def nan_in_a_backward_pass_under_fsdp(rank: int, world: int) -> None:
    """The loss stays finite: a gradient of rank 1 is not, at an input that is zero."""
    torch.manual_seed(0)
    model = Root()
    for layer in (model.inner[0], model):
        fully_shard(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(rank)):
        if rank == 1 and number == 3:
            x[0, 0] = 0.0
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


class Residual(nn.Module):
    """The norm of a row of zeros has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16, bias=False), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.up(x)
        length = torch.sqrt(hidden.square().sum(1, keepdim=True))
        out: torch.Tensor = x + self.down(hidden) * length
        return out


def nan_in_a_block_under_fsdp(rank: int, world: int) -> None:
    """A row of zeros reaches the second block of rank 1: the gradient of its norm is NaN."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8, bias=False), Residual(), nn.Linear(8, 4))
    for layer in (*model, model):
        fully_shard(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for number, (x, y) in enumerate(batches(rank)):
        if rank == 1 and number == 4:
            x[3] = 0.0
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


def nan_of_a_loss_under_fsdp(rank: int, world: int) -> None:
    """The program computes its loss with a square root of its own."""
    model = net()
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, _) in enumerate(batches(rank)):
        optimizer.zero_grad()
        out = model(x).square()
        if rank == 1 and number == 4:
            out = out - 100
        torch.sqrt(out + 1).mean().backward()
        optimizer.step()


class Gate(nn.Module):
    """A sharded layer, and a function of its local part that has no gradient at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.up, self.down = nn.Linear(8, 8), nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
        hidden = self.up(self.first(x))
        hidden = hidden * torch.sqrt((hidden * part).abs())
        out: torch.Tensor = self.down(hidden)
        return out


def nan_in_a_backward_pass_under_tensor_parallelism(rank: int, world: int) -> None:
    """The local part of rank 1 takes the root of zero in step 4."""
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    model = parallelize_module(Gate(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(0)):
        part = torch.ones(8)
        if rank == 1 and number == 4:
            part[2] = 0.0
        optimizer.zero_grad()
        cross_entropy(model(x, part), y).backward()
        optimizer.step()


def nan_under_tensor_parallelism(rank: int, world: int) -> None:
    """A shard of rank 1 gets an infinite weight after step 3; all ranks get the sum of its part."""
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    model = parallelize_module(net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(0)):
        if rank == 1 and number == 4:
            with torch.no_grad():
                weight: Any = model[0].weight
                weight.to_local()[0, 0] = torch.nan
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


def nan_in_one_bucket(rank: int, world: int) -> None:
    """DDP exchanges several buckets; one of them has the gradient that is not finite."""
    torch.manual_seed(0)
    model = DistributedDataParallel(Root(layer=0), bucket_cap_mb=1e-4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(rank)):
        if rank == 1 and number == 3:
            x[0, 0] = 0.0
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


FAULTS = {
    "nan_in_a_logarithm": Fault(
        nan_in_a_logarithm, "non-finite-on-rank", (1,), code="torch.log(", text="/log-op0 at"
    ),
    "nan_in_a_backward_pass": Fault(
        nan_in_a_backward_pass,
        "non-finite-on-rank",
        (1,),
        code="torch.sqrt(",
        text="it reached rank 0 through all_reduce #",
    ),
    "nan_through_an_own_all_reduce": Fault(
        nan_through_an_own_all_reduce,
        "non-finite-on-rank",
        (1,),
        code="backward()",
        text="it reached rank 0 through all_reduce #",
    ),
    "nan_under_fsdp": Fault(
        nan_under_fsdp,
        "non-finite-on-rank",
        (1,),
        code="model(x)",
        text="in the input of the model at planted_non_finite.py",
    ),
    "nan_of_a_module_under_fsdp": Fault(
        nan_of_a_module_under_fsdp,
        "non-finite-on-rank",
        (1,),
        code="return torch.log(x.square()",
        text="log-op0 at planted_non_finite.py",
    ),
    "nan_in_a_backward_pass_under_fsdp": Fault(
        nan_in_a_backward_pass_under_fsdp,
        "non-finite-on-rank",
        (1,),
        code="torch.sqrt((x",
        text="it reached rank 0 through",
    ),
    "nan_in_a_block_under_fsdp": Fault(
        nan_in_a_block_under_fsdp,
        "non-finite-on-rank",
        (1,),
        code="length = torch.sqrt(",
        text="it reached rank 0 through",
    ),
    "nan_of_a_loss_under_fsdp": Fault(
        nan_of_a_loss_under_fsdp,
        "non-finite-on-rank",
        (1,),
        code="torch.sqrt(out + 1)",
        text="it reached rank 0 through",
    ),
    "nan_in_a_backward_pass_under_tensor_parallelism": Fault(
        nan_in_a_backward_pass_under_tensor_parallelism,
        "non-finite-on-rank",
        (1,),
        code="torch.sqrt((hidden",
        text="it reached rank 0 through all_reduce #",
    ),
    "nan_under_tensor_parallelism": Fault(
        nan_under_tensor_parallelism,
        "non-finite-on-rank",
        (1,),
        code="model(x)",
        text="it reached rank 0 through a collective of the forward pass",
    ),
    "nan_in_one_bucket": Fault(
        nan_in_one_bucket,
        "non-finite-on-rank",
        (1,),
        code="torch.sqrt((x",
        text="(bucket 1: inner.0.",
    ),
}
