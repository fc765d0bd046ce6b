import torch
from torch import nn


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())

    def forward(self, x):
        return self.net(x)


def variance_term(z):
    spread = torch.sqrt(z.var(dim=0))
    return torch.relu(1 - spread).mean()


torch.manual_seed(3)
projector = Projector()
optimizer = torch.optim.SGD(projector.parameters(), lr=0.05, momentum=0.9)
for step in range(60):
    x = torch.randn(12, 10)
    a, b = projector(x), projector(x + 0.05 * torch.randn_like(x))
    loss = nn.functional.mse_loss(a, b) + variance_term(a) + variance_term(b)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
