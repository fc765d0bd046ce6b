"""Planted: a dataset that takes long for each sample, read in the training process."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Slow(Dataset):
    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> torch.Tensor:
        values = torch.full((64,), float(index % 7))
        time.sleep(0.002)  # PLANTED
        return values


def main() -> None:
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    # Nothing but the iterator holds this loader.
    for step, x in enumerate(DataLoader(Slow(), batch_size=16)):
        optimizer.zero_grad()
        net(x).pow(2).mean().backward()
        optimizer.step()
        if step == 15:
            break


if __name__ == "__main__":
    main()
