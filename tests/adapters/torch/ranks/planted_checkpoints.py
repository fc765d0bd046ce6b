"""NaN in a part of a sharded network that is computed again in the backward pass."""

from __future__ import annotations

import torch
from tests.adapters.torch.ranks.planted import Fault, batches
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint


class Weights(nn.Module):
    """The softmax of a row in which everything is masked is NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = self.layer(x).masked_fill(~mask, -torch.inf)
        shares = scores.softmax(1)
        return x * shares


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block, self.head = Weights(), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = checkpoint(self.block, x, mask, use_reentrant=False)
        out: torch.Tensor = self.head(hidden)
        return out


def nan_in_a_checkpoint_under_fsdp(rank: int, world: int) -> None:
    """A row of rank 1 is masked as a whole; the block is computed again in the backward pass."""
    torch.manual_seed(0)
    model = Checkpointed()
    for layer in (model.block, model):
        fully_shard(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(rank)):
        mask = torch.ones(16, 8, dtype=torch.bool)
        if rank == 1 and number == 4:
            mask[3] = False
        optimizer.zero_grad()
        cross_entropy(model(x, mask), y).backward()
        optimizer.step()


FAULTS = {
    "nan_in_a_checkpoint_under_fsdp": Fault(
        nan_in_a_checkpoint_under_fsdp,
        "non-finite-on-rank",
        (1,),
        code="scores = self.layer(x).masked_fill(",
        text="masked_fill-op0 at planted_checkpoints.py",
    ),
}
