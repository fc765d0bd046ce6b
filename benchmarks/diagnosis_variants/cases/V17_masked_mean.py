import torch
from torch import nn

torch.manual_seed(16)
model = nn.Sequential(nn.Linear(7, 20), nn.ELU(), nn.Linear(20, 1))
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
x = torch.randn(600, 7)
y = x[:, 0] + 0.1 * torch.randn(600)
valid = torch.rand(600) < 0.12
for epoch in range(6):
    for i in torch.randperm(600).split(12):
        error = (model(x[i]).squeeze(1) - y[i]).abs()
        loss = error[valid[i]].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
