"""PPO: the same rollout is used for some epochs, with normalised advantages and a clipped ratio."""
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
value = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=3e-3, eps=1e-5)
w = torch.randn(4, 3)
for iteration in range(15):
    with torch.no_grad():
        s = torch.randn(256, 4)
        before = Categorical(logits=policy(s))
        a = before.sample()
        r = (a == (s @ w).argmax(1)).float()
        old = before.log_prob(a)
        advantage = r - value(s).squeeze(1)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    for epoch in range(4):
        for i in torch.randperm(256).split(64):
            now = Categorical(logits=policy(s[i]))
            ratio = (now.log_prob(a[i]) - old[i]).exp()
            gain = torch.minimum(ratio * advantage[i], ratio.clamp(0.8, 1.2) * advantage[i]).mean()
            loss = -gain + 0.5 * (value(s[i]).squeeze(1) - r[i]).square().mean() - 0.01 * now.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([*policy.parameters(), *value.parameters()], 0.5)
            optimizer.step()
    print(iteration, r.mean().item())
