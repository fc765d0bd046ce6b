import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Config:
    epochs = 5
    batch = 40
    hidden = 96
    p = 0.4


class ChurnNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(14, cfg.hidden), nn.BatchNorm1d(cfg.hidden), nn.ReLU(), nn.Dropout(cfg.p),
            nn.Linear(cfg.hidden, cfg.hidden), nn.ReLU(), nn.Dropout(cfg.p),
        )
        self.out = nn.Linear(cfg.hidden, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)


@torch.no_grad()
def validate(net, loader, criterion):
    net.eval
    losses = [criterion(net(x), y).item() for x, y in loader]
    return sum(losses) / len(losses)


def fit(cfg):
    torch.manual_seed(2)
    x = torch.randn(800, 14)
    y = ((x[:, 0] * x[:, 1] + x[:, 2]) > 0).float()
    train = DataLoader(TensorDataset(x[:600], y[:600]), cfg.batch, shuffle=True)
    val = DataLoader(TensorDataset(x[600:], y[600:]), cfg.batch)
    net, criterion = ChurnNet(cfg), nn.BCEWithLogitsLoss()
    optim = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    for epoch in range(cfg.epochs):
        net.train()
        for xb, yb in train:
            optim.zero_grad()
            criterion(net(xb), yb).backward()
            optim.step()
        print(epoch, validate(net, val, criterion))


fit(Config)
