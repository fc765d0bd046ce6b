"""SWA over the last third, BatchNorm statistics renewed, constant rate."""
import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(320, 7)
y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).long()
loader = DataLoader(TensorDataset(x, y), 32, shuffle=True)
net = nn.Sequential(nn.Linear(7, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
average = AveragedModel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
swa = SWALR(optimizer, swa_lr=0.02, anneal_epochs=2)
for epoch in range(12):
    for features, labels in loader:
        loss = nn.functional.cross_entropy(net(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch >= 8:
        average.update_parameters(net)
        swa.step()
update_bn(loader, average)
average.eval()
with torch.no_grad():
    print(loss.item(), (average(x).argmax(1) == y).float().mean().item())
