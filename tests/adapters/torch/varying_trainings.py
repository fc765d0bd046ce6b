"""Random trainings in which no step is like another: other ops, loops, branches, lengths and shapes
in each. What they compute depends on their seed alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH = 4

Piece = Callable[["Net", random.Random, torch.Tensor], torch.Tensor]
PIECES: list[Piece] = []


def piece(function: Piece) -> Piece:
    """Register a function that makes a tensor of ``WIDTH`` columns from another."""
    PIECES.append(function)
    return function


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.cell = nn.LSTMCell(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.layer_norm = nn.LayerNorm(WIDTH)
        self.drop = nn.Dropout(0.3)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.router = nn.Linear(WIDTH, 3)
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.table = torch.linspace(-1, 1, 5 * WIDTH).view(5, WIDTH)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(given)
        return given * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (given,) = ctx.saved_tensors
        return gradients[0] * 2 + 0 * given


@piece
def layer(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    return functional.relu(net.linear(x), inplace=rng.random() < 0.5)


@piece
def recurrence(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    hidden = (torch.zeros_like(x), torch.zeros_like(x))
    for _ in range(rng.randint(1, 4)):
        hidden = net.cell(x, hidden)
    return hidden[rng.randint(0, 1)]


@piece
def recursion(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    def encode(part: torch.Tensor) -> torch.Tensor:
        if len(part) < 2:
            return part.tanh()
        at = rng.randint(1, len(part) - 1)
        return torch.cat([encode(part[:at]), net.linear(encode(part[at:]))])

    return encode(x)


@piece
def experts(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    chosen = net.router(x).argmax(1)
    result = torch.zeros_like(x)
    for number, expert in enumerate(net.experts):
        rows = (chosen == number).nonzero().flatten()
        if len(rows):
            result.index_add_(0, rows, expert(x[rows]).float())
    return result


@piece
def normalised(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    return net.norm(x) if len(x) > 1 and rng.random() < 0.6 else net.layer_norm(x)


@piece
def dropped(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    return net.drop(x) * net.scale


@piece
def views(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    for _ in range(rng.randint(1, 3)):
        x = rng.choice(
            (
                lambda x: x.t().contiguous().t(),
                lambda x: x.reshape(-1, 2, 2).transpose(1, 2).reshape(-1, WIDTH),
                lambda x: torch.cat(x.chunk(2, dim=1)[::-1], dim=1),
                lambda x: torch.stack(x.unbind(1), dim=1),
                lambda x: x.unsqueeze(0).expand(2, -1, -1).sum(0),
                lambda x: x.flip(0),
                lambda x: (
                    torch.view_as_complex(x.contiguous().view(-1, 2, 2)).conj().abs().repeat(1, 2)
                ),
            )
        )(x)
    return x


@piece
def written_views(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    for _ in range(rng.randint(1, 3)):
        column = x[:, rng.randint(0, WIDTH - 1)]
        if rng.random() < 0.5:
            column.mul_(0.5)
        else:
            x[:, :2] += 0.25
    return x


@piece
def written_outside_of_autograd(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        net.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        if rng.random() < 0.5:
            filled = torch.zeros(len(x), WIDTH)
            torch.add(x.detach(), 1, out=filled)
            torch._foreach_mul_([filled, net.table.clone()], 0.5)
            return x + filled
    return x - net.mean


@piece
def several_outputs(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    values, places = x.sort(dim=1, descending=rng.random() < 0.5)
    return values.gather(1, places) if rng.random() < 0.5 else values


@piece
def looked_up(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    rows = torch.tensor([rng.randint(0, 4) for _ in range(len(x))])
    return x + net.table[rows]


@piece
def custom(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    return Doubled.apply(x)  # type: ignore[no-any-return]


@piece
def recomputed(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = checkpoint(net.linear, x, use_reentrant=False)
    return result


@piece
def gradient_inside(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    energy = net.linear(x).square().sum()
    (slope,) = torch.autograd.grad(energy, net.linear.weight, create_graph=True)
    return x + slope.mean()


@piece
def raising(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    for _ in range(rng.randint(1, 2)):
        try:
            x = x + torch.ones(rng.choice((WIDTH, WIDTH + 1)))
        except RuntimeError:
            x = x * 0.5
    return x


@piece
def shared_with_numpy(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    known = x.detach().clone()
    known.numpy()[:] *= 0.5
    return x + known


def loss_of(net: Net, rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    for _ in range(rng.randint(1, 5)):
        x = rng.choice(PIECES)(net, rng, x).float()
    if rng.random() < 0.3:
        wanted = torch.tensor([rng.randint(0, WIDTH - 1) for _ in range(len(x))])
        return nn.CrossEntropyLoss()(x, wanted)
    return x.clamp(-10, 10).square().mean()


OPTIMIZERS: tuple[Callable[[Any], torch.optim.Optimizer], ...] = (
    lambda p: torch.optim.Adam(p, lr=0.01),
    lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, foreach=False),
    lambda p: torch.optim.LBFGS(p, lr=0.01, max_iter=3),
)


def train(seed: int, steps: int, after_step: Callable[[], None] = lambda: None) -> list[Any]:
    """Losses and final weights."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    net = Net()
    optimizer = rng.choice(OPTIMIZERS)(net.parameters())
    losses: list[Any] = []
    for _ in range(steps):

        def closure() -> float:
            optimizer.zero_grad(set_to_none=rng.random() < 0.7)
            total = 0.0
            for _ in range(rng.randint(1, 2)):
                x = torch.randn(rng.randint(1, 5), WIDTH)
                with torch.autocast("cpu", torch.bfloat16, enabled=rng.random() < 0.2):
                    loss = loss_of(net, rng, x)
                if loss.requires_grad:
                    loss.float().backward()
                total += loss.item()
            return total

        if isinstance(optimizer, torch.optim.LBFGS):
            losses.append(float(optimizer.step(closure)))  # type: ignore[arg-type]
        else:
            losses.append(closure())
            optimizer.step()
        if rng.random() < 0.2:
            net.eval()
            with torch.no_grad():
                losses.append(net.norm(net.linear(torch.ones(2, WIDTH))).tolist())
            net.train()
        after_step()
    return [losses, [value.tolist() for value in net.state_dict().values()]]
