"""Batch norm whose statistics are those of all ranks: a fault and a healthy training.

The ``SyncBatchNorm`` of torch refuses a CPU, and so does DDP with it: the module here is one, with
another ``forward``, and the trainings exchange gradients themselves.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from tests.adapters.torch.ranks.planted import Fault, Training, average, batches
from torch import nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.functional import cross_entropy


class CpuSyncBatchNorm(nn.SyncBatchNorm):
    """``forgets``: the variance stays that of the own batch."""

    forgets = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return super().forward(input)
        ranks = dist.get_world_size()
        mean = all_reduce(input.mean(0)) / ranks
        own = (input - mean).square().mean(0)
        variance = own if self.forgets else all_reduce(own) / ranks
        assert self.running_mean is not None
        assert self.running_var is not None
        with torch.no_grad():
            self.running_mean.lerp_(mean, 0.1)
            self.running_var.lerp_(variance, 0.1)
        return (input - mean) / (variance + self.eps).sqrt() * self.weight + self.bias


def _train(rank: int, *, forgets: bool) -> None:
    torch.manual_seed(0)
    norm = CpuSyncBatchNorm(16)
    norm.forgets = forgets
    model = nn.Sequential(nn.Linear(8, 16), norm, nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        average(model)
        optimizer.step()


def variance_of_the_own_batch(rank: int, world: int) -> None:
    _train(rank, forgets=True)


def synchronised_batch_norm(rank: int, world: int) -> None:
    _train(rank, forgets=False)


FAULTS = {
    "variance_of_the_own_batch": Fault(
        variance_of_the_own_batch, "replicas-differ", (1,), "1.running_var", text="1 of 3 buffers"
    ),
}
CONTROLS: dict[str, Training] = {"synchronised_batch_norm": synchronised_batch_norm}
