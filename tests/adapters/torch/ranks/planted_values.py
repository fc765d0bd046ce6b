"""Losses, NaN and Inf over ranks: faults and healthy trainings."""

from __future__ import annotations

import torch
import torch.distributed as dist
from tests.adapters.torch.ranks.planted import Training, average, batches, net
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


class Root(nn.Module):
    """The gradient of a square root is infinite at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(x)
        return out + torch.sqrt((x[:, :4] * self.inner[2].bias).abs())


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


def reported_mean_of_means(rank: int, world: int) -> None:
    """The loss that is logged is the mean over ranks, which have different numbers of targets; the
    gradients are weighted as they should be."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank):
        y[: 12 if rank else 2] = -100
        count = (y != -100).sum().float()
        total = count.clone()
        dist.all_reduce(total)
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        (loss * (count / total)).backward()
        average(model, divide=False)
        optimizer.step()
        shown = loss.detach().clone()
        dist.all_reduce(shown)
        shown /= world


def weighted_and_reported(rank: int, world: int) -> None:
    """Uneven numbers of targets, weighted in the loss and in what is logged."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank):
        y[: 12 if rank else 2] = -100
        total = (y != -100).sum().float()
        dist.all_reduce(total)
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y, reduction="sum") / total
        loss.backward()
        average(model, divide=False)
        optimizer.step()
        shown = loss.detach().clone()
        dist.all_reduce(shown)


FAULTS: dict[str, tuple[Training, str, str]] = {
    "nan_in_a_logarithm": (
        nan_in_a_logarithm,
        "non-finite-on-rank",
        "log-op",
    ),
    "nan_in_a_backward_pass": (
        nan_in_a_backward_pass,
        "non-finite-on-rank",
        "it reached rank 0 through all_reduce #",
    ),
    "nan_through_an_own_all_reduce": (
        nan_through_an_own_all_reduce,
        "non-finite-on-rank",
        "it reached rank 0 through all_reduce #",
    ),
    "nan_under_fsdp": (nan_under_fsdp, "non-finite-on-rank", "rank 1 made"),
    "reported_mean_of_means": (reported_mean_of_means, "loss-not-of-all-targets", "planted_values"),
}
CONTROLS: dict[str, Training] = {"weighted_and_reported": weighted_and_reported}
