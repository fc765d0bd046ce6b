import torch
from torch import nn


def standardise(groups):
    return torch.cat([(g - g.mean(0)) / g.std(0).clamp(min=1e-5) for g in groups])


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 32), nn.CELU(), nn.Linear(32, 1))
optimizer = torch.optim.Adagrad(net.parameters(), lr=0.05)
for step in range(60):
    sizes = torch.randint(1, 9, (6,)).tolist()
    x = torch.randn(sum(sizes), 5)
    features = standardise(list(x.split(sizes)))
    loss = nn.functional.l1_loss(net(features).squeeze(1), x[:, 0].abs())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
