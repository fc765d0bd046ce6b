"""Deterministic policy gradient on a damped spring."""
import random
from collections import deque

import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1), nn.Tanh())

    def forward(self, s):
        return self.net(s)


class Value(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, s, a):
        return self.net(torch.cat([s, a], 1))


class Agent:
    def __init__(self, gamma=0.97, tau=0.01):
        self.gamma, self.tau = gamma, tau
        self.policy, self.value = Policy(), Value()
        self.slow_policy = self.policy
        self.slow_value = self.value
        self.policy_opt = torch.optim.Adam(self.policy.parameters(), lr=1e-3)
        self.value_opt = torch.optim.Adam(self.value.parameters(), lr=2e-3)
        self.memory = deque(maxlen=4000)

    def act(self, s):
        with torch.no_grad():
            return (self.policy(s[None])[0] + 0.2 * torch.randn(1)).clamp(-1, 1)

    def learn(self, batch=32):
        s, a, r, t = (torch.stack(x) for x in zip(*random.sample(self.memory, batch)))
        with torch.no_grad():
            goal = r + self.gamma * self.slow_value(t, self.slow_policy(t))
        td = nn.functional.mse_loss(self.value(s, a), goal)
        self.value_opt.zero_grad()
        td.backward()
        self.value_opt.step()
        gain = -self.value(s, self.policy(s)).mean()
        self.policy_opt.zero_grad()
        gain.backward()
        self.policy_opt.step()
        self.track(self.slow_policy, self.policy)
        self.track(self.slow_value, self.value)
        return td.item()

    @torch.no_grad()
    def track(self, slow, fast):
        for a, b in zip(slow.parameters(), fast.parameters()):
            a.lerp_(b, self.tau)


def spring(s, a):
    position, speed = s
    speed = 0.98 * speed - 0.1 * position + 0.1 * a[0]
    position = position + 0.1 * speed
    nxt = torch.stack([position, speed])
    return nxt, -(nxt.square().sum()[None])


torch.manual_seed(84)
random.seed(84)
agent = Agent()
state = torch.randn(2)
for t in range(260):
    action = agent.act(state)
    following, reward = spring(state, action)
    agent.memory.append((state, action, reward, following))
    state = following if t % 40 else torch.randn(2)
    if t > 60:
        error = agent.learn()
    if t > 60 and t % 50 == 0:
        print(t, error)
