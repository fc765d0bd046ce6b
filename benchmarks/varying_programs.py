"""Small trainings whose steps differ in structure, for ``varying.py``.

Each function trains and returns its last loss. A program is deterministic: the same numbers come
out with and without Sonde.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional


class CartPole:
    """The pole on a cart of control theory, with the usual constants. Four numbers of state."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._state = [0.0] * 4

    def reset(self) -> list[float]:
        self._state = [self._random.uniform(-0.05, 0.05) for _ in range(4)]
        return list(self._state)

    def step(self, action: int) -> tuple[list[float], bool]:
        """Push the cart to one side; the new state, and whether the pole fell."""
        x, speed, angle, turn = self._state
        force = 10.0 if action == 1 else -10.0
        cosine, sine = math.cos(angle), math.sin(angle)
        pushed = (force + 0.05 * turn * turn * sine) / 1.1
        turning = (9.8 * sine - cosine * pushed) / (0.5 * (4.0 / 3.0 - 0.1 * cosine**2 / 1.1))
        moving = pushed - 0.05 * turning * cosine / 1.1
        self._state = [
            x + 0.02 * speed,
            speed + 0.02 * moving,
            angle + 0.02 * turn,
            turn + 0.02 * turning,
        ]
        return list(self._state), abs(self._state[0]) > 2.4 or abs(self._state[2]) > 0.2095


def reinforce(steps: int = 8) -> float:
    """Policy gradient: one optimizer step per episode, as long as the pole stood."""
    policy = nn.Sequential(nn.Linear(4, 128), nn.Dropout(0.6), nn.ReLU(), nn.Linear(128, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    world = CartPole(1)
    value = 0.0
    for _ in range(steps):
        state, chosen, rewards = world.reset(), [], []
        for _ in range(200):
            scores = policy(torch.tensor(state).unsqueeze(0))
            choice = Categorical(functional.softmax(scores, dim=1))
            action = choice.sample()
            chosen.append(choice.log_prob(action))
            state, is_over = world.step(int(action.item()))
            rewards.append(1.0)
            if is_over:
                break
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        scaled = torch.tensor(returns)
        scaled = (scaled - scaled.mean()) / (scaled.std() + 1e-8)
        loss = torch.cat([-log * gain for log, gain in zip(chosen, scaled, strict=True)]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
    return value


def actor_critic(steps: int = 8) -> float:
    """Two heads; a loss of each step of the episode, stacked."""

    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(4, 128)
            self.actor = nn.Linear(128, 2)
            self.critic = nn.Linear(128, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = functional.relu(self.body(x))
            return functional.softmax(self.actor(x), dim=-1), self.critic(x)

    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-2)
    world = CartPole(2)
    value = 0.0
    for _ in range(steps):
        state, saved = world.reset(), []
        for _ in range(200):
            odds, guess = policy(torch.tensor(state))
            choice = Categorical(odds)
            action = choice.sample()
            saved.append((choice.log_prob(action), guess))
            state, is_over = world.step(int(action.item()))
            if is_over:
                break
        returns = [sum(0.99**k for k in range(len(saved) - at)) for at in range(len(saved))]
        scaled = torch.tensor(returns)
        scaled = (scaled - scaled.mean()) / (scaled.std() + 1e-8)
        losses, values = [], []
        for (log, guess), gain in zip(saved, scaled, strict=True):
            losses.append(-log * (gain - guess.item()))
            values.append(functional.smooth_l1_loss(guess, torch.tensor([float(gain)])))
        optimizer.zero_grad()
        loss = torch.stack(losses).sum() + torch.stack(values).sum()
        loss.backward()
        optimizer.step()
        value = loss.item()
    return value


def cells_lbfgs(steps: int = 2) -> float:
    """Two LSTM cells in a loop over time, trained by LBFGS with a closure."""

    class Sequence(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.LSTMCell(1, 51)
            self.second = nn.LSTMCell(51, 51)
            self.linear = nn.Linear(51, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            zeros = torch.zeros(x.size(0), 51)
            one, two = (zeros, zeros), (zeros, zeros)
            outputs = []
            for piece in x.split(1, dim=1):
                one = self.first(piece, one)
                two = self.second(one[0], two)
                outputs.append(self.linear(two[0]))
            return torch.cat(outputs, dim=1)

    net, criterion = Sequence(), nn.MSELoss()
    wave = torch.sin(torch.arange(41) / 5 + torch.arange(8).unsqueeze(1))
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.8, max_iter=4)
    value = 0.0

    def closure() -> float:
        nonlocal value
        optimizer.zero_grad()
        loss = criterion(net(wave[:, :-1]), wave[:, 1:])
        loss.backward()
        value = loss.item()
        return value

    for _ in range(steps):
        optimizer.step(closure)
    return value


def lstm_lengths(steps: int = 20) -> float:
    """An own LSTM layer over sentences of random length."""
    words, cell, head = nn.Embedding(50, 32), nn.LSTMCell(32, 32), nn.Linear(32, 50)
    parts = nn.ModuleList([words, cell, head])
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
    lengths = random.Random(3)
    value = 0.0
    for _ in range(steps):
        text = torch.randint(0, 50, (8, lengths.randint(5, 60)))
        hidden = (torch.zeros(8, 32), torch.zeros(8, 32))
        loss = torch.zeros(())
        for at in range(text.shape[1] - 1):
            hidden = cell(words(text[:, at]), hidden)
            loss = loss + functional.cross_entropy(head(hidden[0]), text[:, at + 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
    return value


def experts(steps: int = 20) -> float:
    """Each token goes to two of eight experts; an expert without tokens does not run."""
    body, router = nn.Linear(16, 32), nn.Linear(32, 8)
    layers = nn.ModuleList(
        nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(8)
    )
    head = nn.Linear(32, 4)
    parts = nn.ModuleList([body, router, layers, head])
    optimizer = torch.optim.AdamW(parts.parameters(), lr=1e-3)
    counts = random.Random(4)
    value = 0.0
    for _ in range(steps):
        tokens = torch.randn(counts.randint(2, 9), 16)
        hidden = body(tokens)
        for _ in range(4):
            weights, chosen = router(hidden).softmax(-1).topk(2, dim=-1)
            mixed = torch.zeros_like(hidden)
            for number, layer in enumerate(layers):
                rows, slot = torch.where(chosen == number)
                if rows.numel():
                    out = layer(hidden[rows]) * weights[rows, slot].unsqueeze(-1)
                    mixed = mixed.index_add(0, rows, out)
            hidden = hidden + mixed
        loss = head(hidden).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
    return value


def graph_network(steps: int = 30) -> float:
    """Messages along the edges of graphs of varying size and depth."""
    inner, outer = nn.Linear(8, 32), nn.Linear(32, 32)
    head = nn.Linear(32, 2)
    parts = nn.ModuleList([inner, outer, head])
    optimizer = torch.optim.Adam(parts.parameters(), lr=1e-3)
    sizes = random.Random(5)
    value = 0.0
    for _ in range(steps):
        count = sizes.randint(5, 40)
        edges = torch.randint(0, count, (2, 4 * count))
        x = inner(torch.randn(count, 8))
        for _ in range(sizes.randint(2, 12)):
            sent = outer(x)[edges[0]]
            x = torch.relu(x + torch.zeros_like(x).index_add_(0, edges[1], sent) / 4)
        loss = functional.cross_entropy(head(x), torch.randint(0, 2, (count,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
    return value


def gan(steps: int = 40) -> float:
    """Discriminator and generator with an own optimizer each; a random number of updates."""
    maker = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 16))
    judge = nn.Sequential(nn.Linear(16, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    criterion = nn.BCEWithLogitsLoss()
    of_maker = torch.optim.Adam(maker.parameters(), lr=2e-4)
    of_judge = torch.optim.Adam(judge.parameters(), lr=2e-4)
    turns = random.Random(6)
    value = 0.0
    for _ in range(steps // 2):
        for _ in range(turns.randint(1, 3)):
            of_judge.zero_grad()
            real = criterion(judge(torch.randn(16, 16)), torch.ones(16, 1))
            fake = criterion(judge(maker(torch.randn(16, 8)).detach()), torch.zeros(16, 1))
            (real + fake).backward()
            of_judge.step()
        of_maker.zero_grad()
        loss = criterion(judge(maker(torch.randn(16, 8))), torch.ones(16, 1))
        loss.backward()
        of_maker.step()
        value = loss.item()
    return value


def tree_network(steps: int = 20) -> float:
    """A recursive net over random binary trees."""
    leaf, join, head = nn.Embedding(20, 32), nn.Linear(64, 32), nn.Linear(32, 2)
    parts = nn.ModuleList([leaf, join, head])
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.05)
    shapes = random.Random(7)

    def encode(size: int) -> torch.Tensor:
        if size == 1:
            return leaf(torch.randint(0, 20, (1,)))
        left = shapes.randint(1, size - 1)
        return torch.tanh(join(torch.cat([encode(left), encode(size - left)], dim=1)))

    value = 0.0
    for _ in range(steps):
        loss = functional.cross_entropy(head(encode(shapes.randint(4, 40))), torch.tensor([1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
    return value


def criterion_in_loop(steps: int = 60) -> float:
    """A loss module that is made anew in each step."""
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    value = 0.0
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(net(torch.randn(16, 16)), torch.randint(0, 10, (16,)))
        loss.backward()
        optimizer.step()
        value = loss.item()
    return value


def repeating(steps: int = 60) -> float:
    """Steps that are all alike, for comparison: what recognised ops cost at this size."""
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    value = 0.0
    for _ in range(steps):
        optimizer.zero_grad()
        loss = criterion(net(torch.randn(16, 16)), torch.randint(0, 10, (16,)))
        loss.backward()
        optimizer.step()
        value = loss.item()
    return value


PROGRAMS: dict[str, Callable[..., float]] = {
    each.__name__: each
    for each in (
        reinforce,
        actor_critic,
        cells_lbfgs,
        lstm_lengths,
        experts,
        graph_network,
        gan,
        tree_network,
        criterion_in_loop,
        repeating,
    )
}
