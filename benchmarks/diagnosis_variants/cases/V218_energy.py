import torch
from torch import nn

torch.manual_seed(3)
molecules = torch.randn(512, 9)
energy = molecules.square().sum(1, keepdim=True) * 0.2
net = nn.Sequential(nn.Linear(9, 40), nn.Softplus(), nn.Linear(40, 1))
criterion = nn.MSELoss(reduction="sum")
optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
for epoch in range(4):
    for idx in torch.randperm(512).split(64):
        loss = criterion(net(molecules[idx]), energy[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
