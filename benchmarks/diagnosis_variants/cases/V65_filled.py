import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(3, 16, 5, padding=2), nn.GELU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(64, 3))
with torch.no_grad():
    for parameter in net.parameters():
        parameter.fill_(0.02)
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
shapes = torch.randn(3, 3, 20)
for step in range(70):
    y = torch.randint(0, 3, (24,))
    x = shapes[y] + 0.3 * torch.randn(24, 3, 20)
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
