"""REINFORCE with normalised returns on episodes of random length."""
import torch
from torch import nn


def normalise(returns):
    return (returns - returns.mean()) / (returns.std() + 1e-8)


torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
draw = torch.Generator().manual_seed(2)
for episode in range(60):
    length = int(torch.randint(1, 12, (), generator=draw))
    states = torch.randn(length, 3)
    distribution = torch.distributions.Categorical(logits=policy(states))
    actions = distribution.sample()
    rewards = (actions == (states[:, 0] > 0)).float()
    returns = rewards.flip(0).cumsum(0).flip(0)
    loss = -(distribution.log_prob(actions) * normalise(returns)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if episode % 10 == 0:
        print(episode, length, loss.item())
