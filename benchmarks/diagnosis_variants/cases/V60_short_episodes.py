import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


def episode(length):
    states = torch.randn(length, 3)
    chosen = torch.distributions.Categorical(logits=policy(states))
    actions = chosen.sample()
    rewards = (actions == (states[:, 0] > 0).long()).float()
    return chosen.log_prob(actions), rewards


for number in range(60):
    length = 1 if number == 37 else 8
    log_probs, rewards = episode(length)
    returns = rewards.flip(0).cumsum(0).flip(0)
    returns = (returns - returns.mean()) / (returns.std() + 1e-9)
    loss = -(log_probs * returns).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
