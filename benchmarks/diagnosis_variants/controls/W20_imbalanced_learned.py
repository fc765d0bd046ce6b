import torch
from torch import nn

torch.manual_seed(69)
y = (torch.rand(3000) < 0.03).long()
x = torch.randn(3000, 10) + 3.0 * y[:, None]
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    for i in torch.randperm(3000).split(100):
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
