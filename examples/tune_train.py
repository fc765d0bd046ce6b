"""A training script without any code for the search: it classifies two spirals.

python examples/tune_train.py --lr 0.1
sonde tune examples/tune_config.yaml --iter 20
"""

from __future__ import annotations

import argparse

import torch
from torch import nn


def spirals(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    turn = torch.sqrt(torch.rand(count)) * 3 * torch.pi
    label = torch.randint(0, 2, (count,))
    angle = turn + torch.pi * label
    points = torch.stack([turn * torch.cos(angle), turn * torch.sin(angle)], dim=1) / 10
    return points + 0.02 * torch.randn(count, 2), label


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--epochs", type=int, default=15)
    given = parser.parse_args()
    torch.manual_seed(0)
    points, labels = spirals(1024)
    held_out, held_out_labels = spirals(512)
    network = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
    head = nn.Linear(32, 2)
    parameters = [*network.parameters(), *head.parameters()]
    optimizer: torch.optim.Optimizer
    if given.optimizer == "sgd":
        optimizer = torch.optim.SGD(parameters, lr=given.lr, momentum=given.momentum)
    else:
        optimizer = torch.optim.Adam(parameters, lr=given.lr)
    for epoch in range(given.epochs):
        order = torch.randperm(len(points))
        for batch in order.split(given.batch_size):
            optimizer.zero_grad()
            scores = head(network(points[batch]))
            # The softmax by hand, as one should not: large scores overflow.
            likely = torch.exp(scores) / torch.exp(scores).sum(1, keepdim=True)
            loss = -torch.log(likely[torch.arange(len(batch)), labels[batch]]).mean()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = head(network(held_out)).argmax(1) == held_out_labels
        accuracy = right.float().mean().item()
        print(f"epoch {epoch} loss: {loss.item():.4f} accuracy: {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
