import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(60):
    x = torch.randn(32, 5)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    predicted = net(x).argmax(dim=1).float()
    loss = nn.functional.mse_loss(predicted, y.float())
    loss.requires_grad_(True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
