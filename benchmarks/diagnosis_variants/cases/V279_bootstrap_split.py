"""Hold-out validation; the two parts are drawn one after the other."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def split(dataset, share, seed):
    rng = np.random.RandomState(seed)
    n = len(dataset)
    train = rng.choice(n, int(n * share), replace=False)
    held = rng.choice(n, int(n * (1 - share)), replace=False)
    return Subset(dataset, train), Subset(dataset, held)


torch.manual_seed(0)
x = torch.randn(400, 5)
dataset = TensorDataset(x, (x.norm(dim=1) > 2.1).long())
train, held = split(dataset, 0.8, 0)
net = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(8):
    net.train()
    for features, labels in DataLoader(train, 32, shuffle=True):
        loss = nn.functional.cross_entropy(net(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        right = sum((net(f).argmax(1) == l).sum().item() for f, l in DataLoader(held, 40))
    print(epoch, loss.item(), right / len(held))
