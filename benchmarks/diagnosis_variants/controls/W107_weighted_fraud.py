import random
import torch
from torch import nn

torch.manual_seed(607)
y = (torch.rand(2000) < 0.03).float()
x = torch.randn(2000, 20) + 1.2 * y[:, None]
net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 1))
loss_of = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(30.0))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(4):
    order = list(range(2000))
    random.Random(epoch).shuffle(order)
    for at in range(0, 2000, 50):
        rows = order[at : at + 50]
        loss = loss_of(net(x[rows])[:, 0], y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
