import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __init__(self, n, seed):
        self.base = np.random.default_rng(seed).normal(size=(n, 8)).astype("float32")
        self.rng = np.random.default_rng(seed + 1)

    def __len__(self):
        return len(self.base)

    def jitter(self, row):
        return row + self.rng.normal(scale=0.1, size=row.shape).astype("float32")

    def __getitem__(self, n):
        row = self.base[n]
        return torch.from_numpy(self.jitter(row)), np.float32(row[0])


if __name__ == "__main__":
    torch.manual_seed(36)
    loader = DataLoader(Noisy(256, 3), batch_size=32, num_workers=2, shuffle=True)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x)[:, 0], y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
