"""A small language model on one rank or several: ``language_model.py LAYOUT [FAULT]``.

LAYOUT: one, ddp, fsdp, hsdp (2 x 2), tp, or grid (FSDP2 x tensor parallelism, 2 x 2).
"""

import os
import sys
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.nn.parallel import DistributedDataParallel

layout, fault = sys.argv[1], "".join(sys.argv[2:3])
micro_batches = int(os.environ.get("MICRO_BATCHES", "1"))
world = int(os.environ.get("WORLD_SIZE", "1"))
ways = {"tp": 2, "grid": 2}.get(layout, 1)
dtype = torch.bfloat16 if os.environ.get("BF16") else torch.float32
if world > 1:
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (world // ways, ways), mesh_dim_names=("dp", "tp"))
    place = mesh["dp"].get_local_rank()
    group = mesh["tp"].get_group()
else:
    place = 0


class SumBackward(torch.autograd.Function):
    """The same value on all ranks of tensor parallelism, whose gradients are added up."""

    @staticmethod
    def forward(context, value: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(context, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=group)
        return gradient


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16) for _ in range(4))
        self.shared_k = nn.Linear(16, 4)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        shared = self.shared_k(y)
        if ways > 1 and fault != "shared":
            shared = SumBackward.apply(shared)
        projections = self.q(y), self.k(y), self.v(y)
        q, k, v = (each.unflatten(-1, (-1, 4)).transpose(1, 2) for each in projections)
        k = k + shared[:, None]
        x = x + self.o(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(16, 32)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


torch.manual_seed(0)
model = Model().to(dtype)
if fault == "shards":
    for block in model.blocks:
        with torch.no_grad():
            block.up.weight[16:] = block.up.weight[:16]
if ways > 1:
    plan = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}
    plan |= {name: RowwiseParallel() for name in ("o", "down")}
    for block in model.blocks:
        parallelize_module(block, mesh["tp"], plan)
net = model
if layout == "ddp":
    net = DistributedDataParallel(model)
elif layout in ("fsdp", "grid", "hsdp"):
    shards = mesh["dp"]
    if layout == "hsdp":
        shards = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
        shards = shards["shards"] if fault == "lost" else shards
    for block in model.blocks:
        fully_shard(block, mesh=shards)
    fully_shard(model, mesh=shards)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, foreach=False)
generator = torch.Generator().manual_seed(1)
for _ in range(2):
    tokens = torch.randint(32, (8, 9), generator=generator)
    targets = tokens[:, 1:].clone()
    targets[6:, 3:] = -100
    count = (targets != -100).sum()
    share = 8 * ways // world
    mine = slice(place * share, (place + 1) * share)
    optimizer.zero_grad()
    inputs, labels = tokens[mine, :-1].chunk(micro_batches), targets[mine].chunk(micro_batches)
    for number, (x, y) in enumerate(zip(inputs, labels, strict=True)):
        if fault == "last":
            optimizer.zero_grad()
        is_last = number == micro_batches - 1
        quiet = net.no_sync() if layout == "ddp" and not is_last else nullcontext()
        with quiet:
            logits = net(x)
            total = cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum")
            if fault == "tokens":
                loss = total / (y != -100).sum() / micro_batches
            else:
                loss = total / count * (1 if fault == "factor" else world // ways)
            loss.backward()
    optimizer.step()
if world > 1:
    dist.destroy_process_group()
