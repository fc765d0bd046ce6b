"""Forks trainings without end that dump statistics; each says which steps it has ended."""

import os
import sys
from pathlib import Path

import torch

from sonde.adapters.torch.attach import attach
from sonde.capture.options import config_from_options


def train(path: Path, steps: int, *, parquet: bool = False) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.ReLU(), torch.nn.Linear(40, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    config = config_from_options(path, {}, stats=True, parquet=parquet)
    with attach(config, starts_at_once=False):
        for step in range(steps):
            optimizer.zero_grad()
            net(torch.randn(20, 30)).square().mean().backward()
            optimizer.step()
            # In one piece: the process is killed at any moment.
            os.write(sys.stdout.fileno(), f"{os.getpid()} {step}\n".encode())


if __name__ == "__main__":
    torch.set_num_threads(1)
    is_parquet = sys.argv[3:] == ["parquet"]
    train(
        Path(sys.argv[1]) / "warm", 1, parquet=is_parquet
    )  # so that no child has to import anything
    for number in range(int(sys.argv[2])):
        child = os.fork()
        if child == 0:
            train(Path(sys.argv[1]) / str(number), sys.maxsize, parquet=is_parquet)
        os.waitpid(child, 0)
        print("dead", flush=True)
