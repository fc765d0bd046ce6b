import torch
import torch.nn as nn

torch.manual_seed(86)

CLASSES, DIM = 5, 12
centres = torch.randn(CLASSES, DIM) * 0.7


def sample(n=24):
    y = torch.randint(0, CLASSES, (n,))
    return centres[y] + 0.1 * torch.randn(n, DIM), y


def mined_loss(z, y, margin=0.2):
    d = torch.cdist(z, z)
    same = y[:, None] == y[None]
    gap = d[:, :, None] - d[:, None, :] + margin
    valid = same[:, :, None] & ~same[:, None, :]
    violations = gap[valid & (gap > 0)]
    return violations.mean()


embedder = nn.Sequential(nn.Linear(DIM, 32), nn.ELU(), nn.Linear(32, 8))
opt = torch.optim.Adamax(embedder.parameters(), lr=0.02)
history = []
for it in range(200):
    x, y = sample()
    loss = mined_loss(embedder(x), y)
    embedder.zero_grad()
    loss.backward()
    opt.step()
    history.append(loss.detach())
print(torch.stack(history)[::40])
