import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(11)
labels = torch.arange(600) % 4
points = torch.randn(4, 10)[labels] * 2 + torch.randn(600, 10)
order = torch.randperm(600)
points = points[order]
train = TensorDataset(points[:500], labels[:500])
net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(8):
    for x, y in DataLoader(train, batch_size=25, shuffle=True):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
