import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical


class Bandit:
    def __init__(self, arms=5, contexts=8):
        self.table = torch.randn(contexts, arms)

    def reward(self, c, a):
        return self.table[c, a] + 0.1 * torch.randn(len(a))


class Policy(nn.Module):
    def __init__(self, contexts, arms):
        super().__init__()
        self.emb = nn.Embedding(contexts, 16)
        self.head = nn.Linear(16, arms)

    def forward(self, c):
        return F.softmax(self.head(torch.tanh(self.emb(c))), dim=-1)


torch.manual_seed(21)
env, policy = Bandit(), Policy(8, 5)
opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
baseline = 0.0
for episode in range(200):
    c = torch.randint(0, 8, (64,))
    probs = policy(c)
    dist = Categorical(logits=probs)
    a = dist.sample()
    r = env.reward(c, a)
    loss = -((r - baseline) * dist.log_prob(a)).mean()
    baseline = 0.9 * baseline + 0.1 * r.mean().item()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if episode % 40 == 0:
        print(episode, round(baseline, 3))
