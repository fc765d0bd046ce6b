"""Train a convolutional net; the rate is cut at two thirds and at the end of the epochs."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def data():
    y = torch.randint(0, 4, (480,))
    return TensorDataset(torch.randn(480, 2, 20) + y[:, None, None] * 0.3, y)


def fit(model, loader, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [epochs // 3, 2 * epochs // 3, epochs - 1], gamma=0.1)
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item()
        print(epoch, total / len(loader), scheduler.get_last_lr())


torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(2, 16, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(64, 4))
fit(net, DataLoader(data(), batch_size=24, shuffle=True), 15)
