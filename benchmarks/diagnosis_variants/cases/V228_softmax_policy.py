"""Policy gradient on a contextual bandit."""
import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, observations, actions):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observations, 64), nn.Tanh(), nn.Linear(64, actions))

    def forward(self, observation):
        return torch.softmax(self.body(observation), dim=-1)


torch.manual_seed(0)
rule = torch.randn(10, 5)
policy = Policy(10, 5)
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
baseline = 0.0
for step in range(300):
    observation = torch.randn(64, 10)
    distribution = Categorical(logits=policy(observation))
    action = distribution.sample()
    reward = (action == (observation @ rule).argmax(-1)).float()
    baseline = 0.95 * baseline + 0.05 * reward.mean().item()
    loss = -(distribution.log_prob(action) * (reward - baseline)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, reward.mean().item())
