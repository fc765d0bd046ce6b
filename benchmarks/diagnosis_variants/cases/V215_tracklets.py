import torch
from torch import nn


def euclid(a, b):
    return torch.sqrt(((a - b) ** 2).sum(-1))


torch.manual_seed(5)
embed = nn.Sequential(nn.Linear(14, 32), nn.ReLU(), nn.Linear(32, 6))
opt = torch.optim.Adam(embed.parameters(), lr=1e-3)
people = torch.randn(20, 14)
for it in range(120):
    who = torch.randint(0, 20, (16,))
    x = people[who] + 0.1 * torch.randn(16, 14)
    z = embed(x)
    d = euclid(z[:, None], z[None, :])
    same = who[:, None] == who[None, :]
    pull = (d * same).sum() / same.sum()
    push = (torch.relu(1.0 - d) * ~same).sum() / (~same).sum()
    loss = pull + push
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 20 == 0:
        print(it, loss.item())
