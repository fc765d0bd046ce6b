import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10), nn.LogSoftmax(dim=0),
)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
criterion = nn.NLLLoss()
patterns = torch.randn(10, 1, 8, 8)
for step in range(80):
    y = torch.randint(0, 10, (32,))
    optimizer.zero_grad()
    loss = criterion(net(patterns[y] + 0.3 * torch.randn(32, 1, 8, 8)), y)
    loss.backward()
    optimizer.step()
print(loss.item())
