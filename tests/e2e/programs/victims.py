"""Forks processes that dump without end, one after another; the reader kills each of them."""

import os
import sys
from pathlib import Path

import torch

from sonde.adapters.torch.attach import attach
from sonde.capture.options import config_from_options


def dump(path: Path, steps: int) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.ReLU(), torch.nn.Linear(40, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    with attach(config_from_options(path, {}), starts_at_once=False):
        if steps > 1:
            print(os.getpid(), flush=True)
        for _ in range(steps):
            optimizer.zero_grad()
            (net(torch.randn(20, 30)).square().mean() * torch.tensor(2.0)).backward()
            optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    dump(Path(sys.argv[1]) / "warm", 1)  # so that no child has to import anything
    for number in range(int(sys.argv[2])):
        child = os.fork()
        if child == 0:
            dump(Path(sys.argv[1]) / str(number), sys.maxsize)
        os.waitpid(child, 0)
        sys.stdin.readline()
