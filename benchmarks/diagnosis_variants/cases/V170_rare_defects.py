import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(514)
y = (torch.rand(2000) < 0.015).long()
x = torch.randn(2000, 1, 20) + 0.5 * y[:, None, None] * torch.sin(torch.arange(20.0))
loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
net = nn.Sequential(nn.Conv1d(1, 8, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(32, 2))
criterion = nn.CrossEntropyLoss()
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
for epoch in range(4):
    for a, b in loader:
        loss = criterion(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        print(epoch, (net(x).argmax(1) == y).float().mean().item())
