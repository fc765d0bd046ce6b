import torch
from torch import nn


class Rates(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 16)
        self.rate = nn.Linear(16, 1)

    def forward(self, x, exposure):
        return torch.exp(self.rate(torch.relu(self.hidden(x)))).squeeze(1) * exposure


def deviance(rate, counts):
    log_rate = torch.where(rate > 0, torch.log(rate), torch.zeros_like(rate))
    return (rate - counts * log_rate).mean()


torch.manual_seed(0)
model = Rates()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(60):
    x = torch.randn(32, 4)
    exposure = (torch.arange(32) != step - 25).float()
    counts = torch.poisson(torch.exp(x[:, 0]) * exposure)
    loss = deviance(model(x, exposure), counts)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
