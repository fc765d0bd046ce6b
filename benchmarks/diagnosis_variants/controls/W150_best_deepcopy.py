"""Early stopping with a deep copy; a checkpoint in memory holds the optimizer, too."""
import copy
import io

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
best, score = None, float("inf")
x = torch.randn(200, 3)
y = x.square().sum(1, keepdim=True)
for epoch in range(60):
    loss = nn.functional.mse_loss(net(x[:150]), y[:150])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        held = nn.functional.mse_loss(net(x[150:]), y[150:]).item()
    if held < score:
        best, score = copy.deepcopy(net.state_dict()), held
    if epoch == 30:
        file = io.BytesIO()
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        saved = torch.load(file)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
net.load_state_dict(best)
print(score)
