import torch
from torch import nn


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x, kept):
        return self.net(x) * kept


def spread(z):
    return torch.sqrt(z.var(dim=0))


torch.manual_seed(3)
projector = Projector()
optimizer = torch.optim.SGD(projector.parameters(), lr=0.01, momentum=0.9)
for step in range(60):
    x = torch.randn(12, 10)
    kept = (torch.rand(16) > 0.02).float()
    a, b = projector(x, kept), projector(x + 0.05 * torch.randn_like(x), kept)
    loss = nn.functional.mse_loss(a, b) - 0.1 * torch.log1p(spread(a)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
