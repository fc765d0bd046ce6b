import torch
from torch import nn

torch.manual_seed(70)
x = 50 + 30 * torch.randn(500, 6)
y = (x[:, :1] - x[:, 1:2]) / 30
model = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(6):
    for i in torch.randperm(500).split(50):
        loss = nn.functional.mse_loss(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
