"""Inputs in groups that say little about a noisy label: it depends on one weak feature."""
import torch
from torch import nn

torch.manual_seed(15)
group = torch.randint(0, 5, (900,))
x = torch.randn(5, 16)[group] * 2 + torch.randn(900, 16)
y = (torch.rand(900) < torch.sigmoid(1.2 * x[:, 0] / x[:, 0].std())).float()
net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for epoch in range(5):
    for rows in torch.randperm(900).split(45):
        loss = nn.functional.binary_cross_entropy_with_logits(net(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
