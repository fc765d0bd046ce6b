import numpy as np
import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.Sequential(nn.BatchNorm1d(n), nn.Linear(n, 32), nn.ELU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.layers(x)


def run_epoch(model, x, y, optimizer, size=64):
    total = 0.0
    for i in range(0, len(x), size):
        prediction = model(x[i : i + size])
        loss = torch.mean(torch.abs(prediction - y[i : i + size]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


rng = np.random.default_rng(0)
table = rng.normal(size=(640, 9)).astype(np.float32)
price = table[:, 0] * 3 - table[:, 4] + 0.1 * rng.normal(size=640).astype(np.float32)
torch.manual_seed(0)
model = Regressor(9)
opt = torch.optim.Adadelta(model.parameters(), lr=1.0)
for epoch in range(10):
    print(epoch, run_epoch(model, torch.from_numpy(table), torch.from_numpy(price), opt))
