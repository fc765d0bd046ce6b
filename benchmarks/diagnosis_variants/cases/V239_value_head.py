"""Fit a value function to discounted returns, as the critic of an actor-critic agent."""
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, state):
        return self.layers(state)


def discounted(rewards, gamma=0.9):
    out, running = [], 0.0
    for reward in reversed(rewards.tolist()):
        running = reward + gamma * running
        out.insert(0, running)
    return torch.tensor(out)


torch.manual_seed(0)
critic = Critic()
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
direction = torch.randn(8)
for episode in range(150):
    states = torch.randn(40, 8).cumsum(0) * 0.3
    returns = discounted(torch.tanh(states @ direction))
    advantage = returns - critic(states)
    value_loss = advantage.square().mean()
    optimizer.zero_grad()
    value_loss.backward()
    optimizer.step()
    if episode % 30 == 0:
        print(episode, value_loss.item())
