"""Two backward passes through one graph, on purpose, with gradients that are meant to add up."""
import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(6, 32), nn.ReLU())
a, b = nn.Linear(32, 1), nn.Linear(32, 2)
optimizer = torch.optim.Adam([*trunk.parameters(), *a.parameters(), *b.parameters()], lr=3e-3)
for step in range(120):
    x = torch.randn(48, 6)
    h = trunk(x)
    regression = nn.functional.mse_loss(a(h).squeeze(1), x[:, 0] * 2)
    classes = nn.functional.cross_entropy(b(h), (x[:, 1] > 0).long())
    optimizer.zero_grad()
    regression.backward(retain_graph=True)
    classes.backward()
    optimizer.step()
print(regression.item(), classes.item())
