"""Several networks in one training: experts, of which each rank has one, and two of one class."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from tests.adapters.torch.ranks.planted import (
    STEPS,
    Fault,
    Training,
    average,
    batches,
    net,
    train,
)
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
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


class Routed(nn.Module):
    """Some rows go through the expert of the rank: another number on each."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.inner = net()
        torch.manual_seed(100 + rank)
        self.expert = nn.Linear(4, 4)
        self.rows = 1 + 5 * rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.inner(x)
        return torch.cat([5 * self.expert(out[: self.rows]), out[self.rows :]])


def experts_that_ddp_ignores(rank: int, world: int) -> None:
    model = Routed(rank)
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
        model, ["expert.weight", "expert.bias"]
    )
    train(DistributedDataParallel(model), batches(rank))


def lost_all_reduce_of_the_second_network(rank: int, world: int) -> None:
    _two_networks(rank, skip="2.bias")


def two_networks(rank: int, world: int) -> None:
    _two_networks(rank, skip="")


def evaluation_left_on_one_rank(rank: int, world: int) -> None:
    """The first rank evaluates, and does not go back to training."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), net()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches(rank)):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        if rank == 0 and number == 2:
            model.eval()
            with torch.no_grad():
                model.module(x)


def evaluation_on_one_rank(rank: int, world: int) -> None:
    """The first rank evaluates after each step, and does not switch off gradients."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), net()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        if rank == 0:
            model.eval()
            model.module(x)
            model.train()


def same_data_under_fsdp(rank: int, world: int) -> None:
    model = net()
    fully_shard(model)
    train(model, batches(0))


def exchange_off_under_fsdp(rank: int, world: int) -> None:
    model = net()
    fully_shard(model)
    model.set_requires_gradient_sync(False)
    train(model, batches(rank))


def other_batches_under_tensor_parallelism(rank: int, world: int) -> None:
    """Each rank reads batches of its own, as in data parallelism."""
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    model = parallelize_module(net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train(model, batches(rank))


def parts_of_a_sequence(rank: int, world: int) -> None:
    """Each rank gives the network its part of one batch, as in sequence parallelism."""
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    plan = {
        "0": ColwiseParallel(input_layouts=Shard(0)),
        "2": RowwiseParallel(output_layouts=Shard(0)),
    }
    train(parallelize_module(net(), mesh, plan), batches(rank))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.down(self.up(self.norm(x)).relu())
        return out


def sequence_parallel(rank: int, world: int) -> None:
    """A language model as torch's tutorial shards it: norms see parts of the sequence, so that
    their gradients are sums that nobody has added up, and the loss is one over shards."""
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(48, 8), Block(), nn.Linear(8, 48))
    shards = Shard(1)
    plan = {
        "0": RowwiseParallel(input_layouts=Replicate(), output_layouts=shards),
        "1.norm": SequenceParallel(),
        "1.up": ColwiseParallel(input_layouts=shards),
        "1.down": RowwiseParallel(output_layouts=shards),
        "2": ColwiseParallel(
            input_layouts=shards, output_layouts=Shard(-1), use_local_output=False
        ),
    }
    model = parallelize_module(model, mesh, plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    random = torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        x = torch.randint(0, 48, (4, 8), generator=random)
        optimizer.zero_grad()
        with loss_parallel():
            out = model(x)
            cross_entropy(out.flatten(0, 1), x.roll(-1, 1).flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def uneven_inputs(rank: int, world: int) -> None:
    """Rank 1 has more batches in each epoch; `join` lets rank 0 wait for it."""
    model = DistributedDataParallel(net())
    for _ in range(2):
        with model.join():
            train(model, batches(rank, 8 + 3 * rank))


def resumed_on_one_rank(rank: int, world: int) -> None:
    """The optimizer's state is loaded on the first rank only, as where it alone reads the file."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    if rank == 0:
        state = {
            number: {
                "step": torch.tensor(500.0),
                "exp_avg": torch.full_like(each, 1e-3),
                "exp_avg_sq": torch.full_like(each, 1e-4),
            }
            for number, each in enumerate(model.parameters())
        }
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


def clipped_by_hand_on_one_rank(rank: int, world: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        if rank == 0:
            gradients = [each.grad for each in model.parameters() if each.grad is not None]
            norm = torch.stack([each.norm() for each in gradients]).norm()
            for each in gradients:
                each.mul_(0.05 / norm)
        optimizer.step()


def clipped_by_hand_under_fsdp(rank: int, world: int) -> None:
    """Each rank clips its shards by the norm of its shards."""
    model = net()
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for x, y in batches(rank):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        gradients: list[Any] = [each.grad for each in model.parameters()]
        norm = sum(each.to_local().square().sum() for each in gradients) ** 0.5
        for each in gradients:
            each.mul_(0.05 / float(norm))
        optimizer.step()


def new_head_after_wrapping(rank: int, world: int) -> None:
    """DDP waits for the gradients of the head that is gone, and raises in the second step."""
    model = net()
    wrapper = DistributedDataParallel(model)
    model[2] = nn.Linear(16, 4)
    with suppress(RuntimeError):
        train(wrapper, batches(rank))


def dropout_in_eval_on_one_rank(rank: int, world: int) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(net(), nn.Dropout(0.1), nn.Tanh()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank):
        if rank == 1:
            model.module[1].eval()
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()


FAULTS = {
    "same_data_under_fsdp": Fault(
        same_data_under_fsdp, "same-batch-on-ranks", (0, 1), code=".backward()"
    ),
    "clipped_by_hand_on_one_rank": Fault(
        clipped_by_hand_on_one_rank,
        "clip-on-one-rank",
        (1,),
        code="optimizer.step()",
        text="rank 1: 1)",
    ),
    "clipped_by_hand_under_fsdp": Fault(
        clipped_by_hand_under_fsdp, "clip-norms-differ", (1,), code="optimizer.step()"
    ),
    "new_head_after_wrapping": Fault(
        new_head_after_wrapping, "parameter-not-reduced", (0, 1), "2.weight", text="2 of 4"
    ),
    "resumed_on_one_rank": Fault(
        resumed_on_one_rank,
        "decisions-differ",
        (1,),
        code="optimizer.step()",
        text="steps made before this run: none on rank 1, 500 on rank 0",
    ),
    "dropout_in_eval_on_one_rank": Fault(
        dropout_in_eval_on_one_rank,
        "decisions-differ",
        (1,),
        code="optimizer.step()",
        text="modules in eval mode: 1 on rank 1, none on rank 0, in step 0",
    ),
    "evaluation_left_on_one_rank": Fault(
        evaluation_left_on_one_rank,
        "decisions-differ",
        (1,),
        code="optimizer.step()",
        text="network in eval mode: none on rank 1, Sequential on rank 0, in step 3",
    ),
    "exchange_off_under_fsdp": Fault(
        exchange_off_under_fsdp, "gradients-not-exchanged", (0, 1), "0.weight", text="none of the 4"
    ),
    "other_batches_under_tensor_parallelism": Fault(
        other_batches_under_tensor_parallelism,
        "tensor-ranks-batches-differ",
        (1,),
        "0",
        code=".backward()",
        text="rank 1 got another batch than rank 0 in step 0",
    ),
    "lost_all_reduce_of_the_second_network": Fault(
        lost_all_reduce_of_the_second_network,
        "gradients-partly-exchanged",
        (0, 1),
        "Sequential_2.2.bias",
        text="1 of 8",
    ),
}
CONTROLS: dict[str, Training] = {
    "evaluation_on_one_rank": evaluation_on_one_rank,
    "exchanged_tokens": exchanged_tokens,
    "experts_that_ddp_ignores": experts_that_ddp_ignores,
    "uneven_inputs": uneven_inputs,
    "parts_of_a_sequence": parts_of_a_sequence,
    "sequence_parallel": sequence_parallel,
    "two_networks": two_networks,
}
