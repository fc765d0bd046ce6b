"""Losses, NaN and Inf over ranks: faults and healthy trainings."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
from tests.adapters.torch.ranks.planted import Fault, Training, average, batches, net, train
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel


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


def unfrozen_after_wrapping(rank: int, world: int) -> None:
    """All ranks train on the same batches, as in a test of a model, so that no gradient differs."""
    model = net()
    model[2].bias.requires_grad_(False)
    wrapper = DistributedDataParallel(model)
    model[2].bias.requires_grad_(True)
    train(wrapper, batches(0)[:1] * 8)


def averaged_twice(rank: int, world: int) -> None:
    """DDP has averaged the gradients already; what is done again does not change them."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        average(model)
        optimizer.step()


def changed_between_samples(rank: int, world: int) -> None:
    """Steps after the first five are too fast to be compared."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(rank, 12)):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        if rank == 1 and number == 6:
            with torch.no_grad():
                model.module[2].weight.mul_(1.01)


def averaged_on_one_rank_more(rank: int, world: int) -> None:
    """Rank 1 updates the average in every step, rank 0 in all but the fourth."""
    model = DistributedDataParallel(net())
    shadow = copy.deepcopy(model.module)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(rank, 40)):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        if rank == 1 or number != 1:
            with torch.no_grad():
                for mean, now in zip(shadow.parameters(), model.parameters(), strict=True):
                    mean.lerp_(now, 0.1)


def copied_before_the_broadcast(rank: int, world: int) -> None:
    """The weights that DDP broadcasts later; the teacher keeps those of its rank."""
    model = net(seed=rank)
    teacher = copy.deepcopy(model).requires_grad_(False)
    wrapper = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(wrapper.parameters(), lr=0.1)
    for x, _ in batches(rank):
        optimizer.zero_grad()
        with torch.no_grad():
            target = teacher(x).softmax(-1)
        cross_entropy(wrapper(x), target).backward()
        optimizer.step()


def averaged_model_and_target(rank: int, world: int) -> None:
    """An average that torch keeps, a target that is copied from time to time, and an average that
    one rank keeps alone."""
    model = DistributedDataParallel(net())
    own = copy.deepcopy(model.module) if rank == 0 else None
    average_of = AveragedModel(model.module)
    target = copy.deepcopy(model.module).eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for number, (x, y) in enumerate(batches(rank)):
        optimizer.zero_grad()
        with torch.no_grad():
            near = target(x)
        (cross_entropy(model(x), y) + (near - model(x)).square().mean()).backward()
        optimizer.step()
        average_of.update_parameters(model.module)
        if number % 3 == 2:
            target.load_state_dict(model.module.state_dict())
        if own is not None:
            own.load_state_dict(model.module.state_dict())


class Codebook(nn.Module):
    """Averages what it sees in a buffer, and subtracts it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = net()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean: Any = self.mean
        with torch.no_grad():
            mean.lerp_(x.mean(0), 0.1)
        out: torch.Tensor = self.inner(x - mean)
        return out


def buffer_of_own_data(rank: int, world: int) -> None:
    torch.manual_seed(0)
    train(DistributedDataParallel(Codebook(), broadcast_buffers=False), batches(rank))


def codebook_of_rank_zero(rank: int, world: int) -> None:
    torch.manual_seed(0)
    train(DistributedDataParallel(Codebook()), batches(rank))


def batch_norm_without_broadcast(rank: int, world: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(8), net())
    train(DistributedDataParallel(model, broadcast_buffers=False), batches(rank))


def fsdp_of_batch_norm(rank: int, world: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(8), net())
    fully_shard(model)
    train(model, batches(rank))


FAULTS = {
    "unfrozen_after_wrapping": Fault(
        unfrozen_after_wrapping, "parameter-not-reduced", (0, 1), "2.bias", text="1 of 4"
    ),
    "averaged_twice": Fault(
        averaged_twice, "gradient-reduced-twice", (0, 1), "0.weight", text="4 of 4"
    ),
    "changed_between_samples": Fault(
        changed_between_samples,
        "replicas-differ",
        (1,),
        "2.weight",
        text="after step 7: 1 of 4 parameters differ; they were equal after step 4, and after step "
        "6 in the few elements that are compared more often",
    ),
    "averaged_on_one_rank_more": Fault(
        averaged_on_one_rank_more,
        "replicas-differ",
        (1,),
        code="optimizer.step()",
        text="after step 2: 4 of 4 parameters of a copy differ; they were equal after step 1",
    ),
    "copied_before_the_broadcast": Fault(
        copied_before_the_broadcast,
        "ranks-differ-at-init",
        (1,),
        code="optimizer.step()",
        text="4 of 4 parameters of a copy differ",
    ),
    "buffer_of_own_data": Fault(buffer_of_own_data, "replicas-differ", (1,), "mean", text="1 of 1"),
    "reported_mean_of_means": Fault(
        reported_mean_of_means, "loss-not-of-all-targets", (0, 1), code="dist.all_reduce(shown)"
    ),
}
CONTROLS: dict[str, Training] = {
    each.__name__: each
    for each in (
        weighted_and_reported,
        averaged_model_and_target,
        codebook_of_rank_zero,
        batch_norm_without_broadcast,
        fsdp_of_batch_norm,
    )
}
