"""Regression on a noisy curve; the epoch with the lowest validation error is restored at the end."""
import torch
from torch import nn


class Keeper:
    """Remembers the weights of the best epoch."""

    def __init__(self):
        self.score = float("inf")
        self.best = None

    def offer(self, score, model):
        if score < self.score:
            self.score = score
            self.best = {name: value.detach() for name, value in model.state_dict().items()}

    def restore(self, model):
        model.load_state_dict(self.best)


torch.manual_seed(1)
x = torch.linspace(-3, 3, 120)[:, None]
y = torch.sin(2 * x) + 0.3 * torch.randn_like(x)
order = torch.randperm(120)
train, held = order[:60], order[60:]
net = nn.Sequential(nn.Linear(1, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
optimizer = torch.optim.Rprop(net.parameters(), lr=1e-3)
keeper = Keeper()
for epoch in range(150):
    net.train()
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x[train]), y[train])
    loss.backward()
    optimizer.step()
    net.eval()
    with torch.no_grad():
        keeper.offer(nn.functional.mse_loss(net(x[held]), y[held]).item(), net)
keeper.restore(net)
with torch.no_grad():
    print(keeper.score, nn.functional.mse_loss(net(x[held]), y[held]).item())
