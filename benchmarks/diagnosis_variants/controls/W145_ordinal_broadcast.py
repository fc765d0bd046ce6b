"""Pairwise ranking: every score is compared with every other on purpose."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
w = torch.randn(8)
for step in range(120):
    x = torch.randn(32, 8)
    relevance = x @ w
    score = net(x)
    gap = score - score.T
    wanted = torch.sign(relevance[:, None] - relevance[None])
    loss = nn.functional.softplus(-wanted * gap)[wanted != 0].mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
