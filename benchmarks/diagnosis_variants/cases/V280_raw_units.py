"""House prices from columns in their own units."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load(n=512):
    area = torch.rand(n) * 2000 + 400
    year = torch.randint(1900, 2024, (n,)).float()
    income = torch.rand(n) * 90_000 + 10_000
    price = 0.4 * (area - 1400) / 577 + 0.3 * (year - 1962) / 36 + 0.3 * (income - 55_000) / 26_000
    return torch.stack([area, year, income], 1), price[:, None]


torch.manual_seed(0)
loader = DataLoader(TensorDataset(*load()), 64, shuffle=True)
model = nn.Sequential(nn.Linear(3, 64), nn.Sigmoid(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(15):
    for columns, price in loader:
        loss = nn.functional.mse_loss(model(columns), price)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 3 == 0:
        print(epoch, loss.item())
