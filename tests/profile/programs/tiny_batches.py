"""Planted: one sample at a time."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


def main() -> None:
    net = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(8)))
    optimizer = torch.optim.SGD(net.parameters(), 0.01, fused=True)
    data = TensorDataset(torch.randn(64, 64))
    loader = DataLoader(data, batch_size=1)  # PLANTED
    for step, (x,) in enumerate(loader):
        optimizer.zero_grad()
        net(x).pow(2).mean().backward()
        optimizer.step()
        if step == 15:
            break


if __name__ == "__main__":
    main()
