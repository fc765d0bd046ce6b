import torch
from torch import nn
from torch.nn.utils import spectral_norm as sn

torch.manual_seed(327)
judge = nn.Sequential(sn(nn.Conv1d(3, 32, 3, padding=1)), nn.LeakyReLU(0.1), sn(nn.Conv1d(32, 32, 3, padding=1)), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 1))
maker = nn.Sequential(nn.Linear(16, 96), nn.Tanh(), nn.Unflatten(1, (3, 32)))
warm = torch.optim.Adam(maker.parameters(), lr=1e-3)
judge.eval()
for step in range(30):  # the maker first learns to please an untrained judge
    loss = -judge(maker(torch.randn(24, 16))).mean()
    warm.zero_grad()
    loss.backward()
    warm.step()
judge.train()
both = torch.optim.Adam(judge.parameters(), lr=1e-3)
for step in range(30):
    real = torch.sin(torch.linspace(0, 9, 32) + torch.rand(24, 3, 1) * 6)
    fake = maker(torch.randn(24, 16))
    d = torch.relu(1 - judge(real)).mean() + torch.relu(1 + judge(fake.detach())).mean()
    both.zero_grad()
    d.backward()
    both.step()
    g = -judge(fake).mean()
    warm.zero_grad()
    g.backward()
    warm.step()
    if step % 10 == 0:
        print(step, d.item(), g.item())
