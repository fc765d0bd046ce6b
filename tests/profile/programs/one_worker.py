"""Planted: one worker that cannot keep up, where two or four would."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Data(Dataset):
    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.003)
        return torch.full((64,), float(index % 7))


def main() -> None:
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    loader = DataLoader(Data(), batch_size=16, num_workers=1)  # PLANTED
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        net(x).pow(2).mean().backward()
        optimizer.step()
        if step == 15:
            break


if __name__ == "__main__":
    main()
