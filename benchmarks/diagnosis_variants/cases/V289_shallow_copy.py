import copy

import torch
from torch import nn


class Ddpg:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
        self.critic_target = copy.copy(self.critic)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=2e-3)

    def learn(self, s, a, r, n):
        with torch.no_grad():
            goal = r + 0.95 * self.critic_target(torch.cat([n, self.actor(n)], 1))
        loss = (self.critic(torch.cat([s, a], 1)) - goal).square().mean()
        self.opt_c.zero_grad()
        loss.backward()
        self.opt_c.step()
        gain = self.critic(torch.cat([s, self.actor(s)], 1)).mean()
        self.opt_a.zero_grad()
        (-gain).backward()
        self.opt_a.step()
        with torch.no_grad():
            for t, c in zip(self.critic_target.parameters(), self.critic.parameters()):
                t.mul_(0.99).add_(c, alpha=0.01)
        return loss.item()


torch.manual_seed(0)
agent = Ddpg()
for step in range(120):
    s, a = torch.randn(64, 3), torch.rand(64, 1) * 2 - 1
    loss = agent.learn(s, a, -(a - s[:, :1].tanh()).square(), s + 0.1 * torch.randn(64, 3))
    if step % 30 == 0:
        print(step, loss)
