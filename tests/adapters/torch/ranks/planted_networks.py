"""Several networks in one training: experts, of which each rank has one, and two of one class."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from tests.adapters.torch.ranks.planted import Fault, Training, average, batches, net
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


class Exchange(torch.autograd.Function):
    """Sends rows to other ranks, as many to each as ``given`` says; the gradients come back."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, given: list[int], taken: list[int]) -> torch.Tensor:
        ctx.given, ctx.taken = given, taken
        out = rows.new_empty(sum(taken), rows.shape[1])
        dist.all_to_all_single(out, rows.contiguous(), taken, given)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        out = gradients[0].new_empty(sum(ctx.given), gradients[0].shape[1])
        dist.all_to_all_single(out, gradients[0].contiguous(), ctx.given, ctx.taken)
        return out, None, None


def exchanged_tokens(rank: int, world: int) -> None:
    """A router sends each token to the expert of another rank: the experts get uneven numbers of
    tokens, which differ from step to step."""
    torch.manual_seed(0)
    router = DistributedDataParallel(nn.Linear(8, world))
    head = DistributedDataParallel(nn.Linear(8, 4))
    torch.manual_seed(20 + rank)
    expert = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    parameters = [*router.parameters(), *head.parameters(), *expert.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for x, y in batches(rank):
        optimizer.zero_grad()
        share, chosen = router(x).softmax(1).max(1)
        order = chosen.argsort(stable=True)
        counts = torch.bincount(chosen, minlength=world)
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts)
        given, taken = counts.tolist(), theirs.tolist()
        apply: Any = Exchange.apply
        back = apply(expert(apply(x[order], given, taken)), taken, given)
        out = torch.zeros_like(x).index_copy(0, order, back) * share[:, None]
        cross_entropy(head(x + out), y).backward()
        optimizer.step()


def _two_networks(rank: int, *, skip: str) -> None:
    """Two networks of one class, without a wrapper; ``skip``: a parameter of the second whose
    gradient is not exchanged."""
    first, second = net(1), net(2)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    for x, y in batches(rank):
        optimizer.zero_grad()
        (cross_entropy(first(x), y) + cross_entropy(second(x), y)).backward()
        average(first)
        average(second, skip=skip)
        optimizer.step()


def lost_all_reduce_of_the_second_network(rank: int, world: int) -> None:
    _two_networks(rank, skip="2.bias")


def two_networks(rank: int, world: int) -> None:
    _two_networks(rank, skip="")


FAULTS = {
    "lost_all_reduce_of_the_second_network": Fault(
        lost_all_reduce_of_the_second_network,
        "gradients-partly-exchanged",
        (0, 1),
        "Sequential_2.2.bias",
        text="1 of 8",
    ),
}
CONTROLS: dict[str, Training] = {
    "exchanged_tokens": exchanged_tokens,
    "two_networks": two_networks,
}
