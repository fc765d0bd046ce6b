import torch
from torch import nn


def reset_gradients(model):
    for p in model.parameters():
        p.grad = None


torch.manual_seed(512)
model = nn.Sequential(nn.Linear(7, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.NAdam(model.parameters(), lr=2e-3)
x = torch.randn(300, 7)
y = torch.sin(x[:, :1]) + x[:, 1:2]
for epoch in range(6):
    for rows in torch.randperm(300).split(30):
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        loss.backward()
        reset_gradients(model)
        opt.step()
    print(epoch, loss.item())
