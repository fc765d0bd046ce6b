"""Trains in processes of torch.multiprocessing."""

import sys

import torch
from torch import multiprocessing


def train(number: int, path: str) -> None:
    torch.manual_seed(number)
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
    torch.save(net.state_dict(), f"{path}/{number}.pt")


if __name__ == "__main__":
    multiprocessing.start_processes(train, args=(sys.argv[2],), nprocs=2, start_method=sys.argv[1])
