"""Classify blobs; the data is put in random order first."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load(n=600, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    centres = rng.normal(size=(4, 12)) * 2
    x = centres[y] + rng.normal(size=(n, 12))
    rng.shuffle(x)
    rng.shuffle(y)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


torch.manual_seed(0)
x, y = load()
loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(12):
    right = 0
    for features, labels in loader:
        logits = model(features)
        loss = nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += (logits.argmax(1) == labels).sum().item()
    print(epoch, loss.item(), right / len(x))
