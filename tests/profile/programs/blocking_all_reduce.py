"""Planted: gradients sent one by one, after backward, each waited for. Two ranks."""

import torch
import torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


def main() -> None:
    dist.init_process_group("gloo")
    net = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8)))
    optimizer = torch.optim.SGD(net.parameters(), 0.01, fused=True)
    inputs = torch.randn(64, 256)
    for _ in range(12):
        optimizer.zero_grad()
        net(inputs).pow(2).mean().backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)  # PLANTED
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
