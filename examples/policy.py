"""Learns by imitation which of six actions an expert takes in a state.

The network returns probabilities. That of an action which it has ruled out becomes 0, whose
logarithm is -inf: the loss is infinite, and the weights are NaN after the step. `log_softmax` of
the network's scores would stay finite.
"""

from __future__ import annotations

import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 6))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.scores(states), dim=1)


def main() -> None:
    torch.manual_seed(17)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.3)
    states = 40 * torch.randn(400, 5)
    actions = states.argmax(dim=1)
    for step, rows in enumerate(torch.randperm(400).split(25)):
        chosen = policy(states[rows]).gather(1, actions[rows, None])
        loss = -torch.log(chosen).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
