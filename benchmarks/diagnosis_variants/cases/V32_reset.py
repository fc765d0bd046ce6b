import torch
from torch import nn

torch.manual_seed(31)
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))


def setup(model):
    for layer in model:
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()


optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(400, 6)
y = x.max(1, keepdim=True).values
for epoch in range(5):
    setup(model)
    for i in torch.randperm(400).split(40):
        loss = nn.functional.mse_loss(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
