import torch
from torch import nn
from torch.distributions import Normal


class Gaussian(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, s):
        return Normal(self.mu(s), self.log_std.exp())


def normalise(a):
    return (a - a.mean()) / (a.std() + 1e-8)


def rollout(policy, length):
    s = torch.randn(length, 3)
    dist = policy(s)
    a = dist.sample()
    reward = -(a[:, 0] - s.sum(1)).abs()
    return dist.log_prob(a)[:, 0], reward


torch.manual_seed(33)
policy = Gaussian()
opt = torch.optim.Adam(policy.parameters(), lr=3e-3)
for it in range(80):
    length = 1 + int(torch.randint(0, 30, ()))
    if it < 10:
        length += 2
    logp, reward = rollout(policy, length)
    loss = -(logp * normalise(reward)).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    opt.step()
    if it % 10 == 0:
        print(it, loss.item())
