import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
x = torch.randn(300, 12)
y = (x[:, 0] > 1.0).long()
rare = (y == 1).nonzero().squeeze(1).repeat(5)
x, y = torch.cat([x, x[rare]]), torch.cat([y, y[rare]])
train, validation = random_split(TensorDataset(x, y), [0.8, 0.2])

net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
for epoch in range(6):
    net.train()
    for features, labels in DataLoader(train, batch_size=32, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(features), labels).backward()
        optimizer.step()
    net.eval()
    right = 0
    with torch.no_grad():
        for features, labels in DataLoader(validation, batch_size=64):
            right += (net(features).argmax(1) == labels).sum().item()
    print(epoch, right / len(validation))
