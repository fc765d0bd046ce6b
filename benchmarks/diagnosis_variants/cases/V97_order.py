"""Trains a tabular classifier by hand-made batches."""
import torch
from torch import nn


def load(seed=3):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(320, 10, generator=g)
    y = (x[:, :3].sum(1) + 0.2 * torch.randn(320, generator=g) > 0).long()
    return x, y


def minibatches(x, y, size, seed=1234):
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator)
    for chunk in order.split(size):
        yield x[chunk], y[chunk]


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        result = (model(x).argmax(-1) == y).float().mean().item()
    model.train()
    return result


def main():
    torch.manual_seed(97)
    x, y = load()
    model = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(8):
        for xb, yb in minibatches(x, y, 32):
            loss = nn.functional.cross_entropy(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item(), accuracy(model, x, y))


main()
