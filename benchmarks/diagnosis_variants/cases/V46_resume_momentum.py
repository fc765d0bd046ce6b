import os
import tempfile
import torch
from torch import nn


def train(model, optimizer, steps):
    for _ in range(steps):
        x = torch.randn(32, 5)
        loss = nn.functional.mse_loss(model(x), x.sin().sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(45)
path = os.path.join(tempfile.mkdtemp(), "last.pth")
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.95)
print(train(model, optimizer, 40))
torch.save({"model": model.state_dict(), "epoch": 4, "loss": 0.1}, path)

model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
checkpoint = torch.load(path)
model.load_state_dict(checkpoint["model"])
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.95)
print(train(model, optimizer, 40))
