import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence


def sample(g):
    n = int(torch.randint(6, 30, (1,), generator=g))
    clean = torch.randn(n, 4, generator=g).cumsum(0) * 0.2
    return clean


g = torch.Generator().manual_seed(2)
torch.manual_seed(2)
net = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 4))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
criterion = nn.SmoothL1Loss(reduction="none")
for step in range(100):
    tracks = [sample(g) for _ in range(24)]
    clean = pad_sequence(tracks, batch_first=True)
    weight = pad_sequence([torch.ones(len(each)) for each in tracks], batch_first=True)
    noisy = (clean + 0.2 * torch.randn(clean.shape, generator=g)) * weight[..., None]
    each = criterion(net(noisy), clean).mean(-1)
    loss = (each * weight).sum() / weight.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
