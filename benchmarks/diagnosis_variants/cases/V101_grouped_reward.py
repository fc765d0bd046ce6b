"""Group-relative policy optimisation on a toy prompt task."""
import torch
from torch import nn


class Writer(nn.Module):
    def __init__(self, prompts=6, words=12, width=24):
        super().__init__()
        self.prompt = nn.Embedding(prompts, width)
        self.body = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, words))

    def forward(self, prompt):
        return torch.distributions.Categorical(logits=self.body(self.prompt(prompt)))


def reward(prompt, word):
    return (word == 2 * prompt).float() + 0.1 * (word % 2 == 0).float()


def advantages(rewards):
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    return centred / (rewards.std(dim=1, keepdim=True) + 1e-6)


def group_sizes():
    budget = 97
    while budget > 0:
        size = min(8, budget)
        budget -= size
        yield size


torch.manual_seed(101)
policy = Writer()
opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
for epoch in range(6):
    for size in group_sizes():
        prompt = torch.randint(0, 6, (4,))
        repeated = prompt[:, None].expand(4, size)
        with torch.no_grad():
            word = policy(repeated).sample()
        gain = advantages(reward(repeated, word))
        loss = -(gain * policy(repeated).log_prob(word)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, reward(repeated, word).mean().item(), loss.item())
