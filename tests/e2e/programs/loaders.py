"""Trains from DataLoaders whose workers are forked and spawned."""

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(index)) * torch.nn.functional.relu(torch.ones(4))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    for method in ("fork", "spawn"):
        loader = DataLoader(
            Numbers(), batch_size=4, num_workers=1, multiprocessing_context=method, shuffle=True
        )
        for batch in loader:
            optimizer.zero_grad()
            loss = net(batch).square().mean()
            loss.backward()
            optimizer.step()
            print(method, tuple(batch.shape), loss.item())
