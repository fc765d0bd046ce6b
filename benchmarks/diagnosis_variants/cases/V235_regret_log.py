"""Online regression with a logger that averages the loss."""
from collections import defaultdict

import torch
from torch import nn


class Logger:
    def __init__(self):
        self.values = defaultdict(list)

    def record(self, **values):
        for name, value in values.items():
            self.values[name].append(value)

    def mean(self, name, last):
        recent = self.values[name][-last:]
        return sum(recent) / len(recent)


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))

    def training_step(self, x, y):
        error = self.net(x).squeeze(1) - y
        return {"loss": error.square().mean(), "mae": error.abs().mean()}


torch.manual_seed(0)
module, logger = Module(), Logger()
optimizer = torch.optim.Adagrad(module.parameters(), lr=0.02)
truth = torch.randn(20)
for step in range(200):
    x = torch.randn(16, 20)
    outcome = module.training_step(x, x @ truth)
    optimizer.zero_grad()
    outcome["loss"].backward()
    optimizer.step()
    logger.record(**outcome)
    if step % 50 == 49:
        print(step, f"{logger.mean('mae', 50):.3f}")
