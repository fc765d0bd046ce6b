"""One trunk with a head for each task."""
import torch
from torch import nn


class Multitask(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.heads = {name: nn.Linear(48, width) for name, width in tasks.items()}

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


TASKS = {"sign": 2, "sum": 1, "argmax": 12}
torch.manual_seed(0)
model = Multitask(TASKS)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(100):
    x = torch.randn(64, 12)
    losses = {
        "sign": nn.functional.cross_entropy(model(x, "sign"), (x[:, 0] > 0).long()),
        "sum": nn.functional.mse_loss(model(x, "sum")[:, 0], x.sum(1)),
        "argmax": nn.functional.cross_entropy(model(x, "argmax"), x.argmax(1)),
    }
    optimizer.zero_grad()
    sum(losses.values()).backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, {name: round(value.item(), 3) for name, value in losses.items()})
