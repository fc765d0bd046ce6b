import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(1600, 8)
data = TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)


def run_epoch(loader):
    for features, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(features), labels).backward()
        optimizer.step()
        decay.step()


for epoch in range(5):
    run_epoch(DataLoader(data, batch_size=32, shuffle=True))
    print(epoch, decay.get_last_lr())
