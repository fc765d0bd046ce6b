import torch
from torch import nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
        self.pi, self.v = nn.Linear(32, 2), nn.Linear(32, 1)
        nn.init.zeros_(self.v.weight)
        nn.init.zeros_(self.v.bias)

    def forward(self, s):
        h = self.body(s)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


torch.manual_seed(3)
net = ActorCritic()
opt = torch.optim.Adam(net.parameters(), lr=3e-3, eps=1e-5)
for it in range(15):
    with torch.no_grad():
        s = torch.randn(128, 4)
        dist, v = net(s)
        a = dist.sample()
        old = dist.log_prob(a)
        ret = ((s[:, 0] > 0).long() == a).float() + 0.1 * torch.randn(128)
        adv = ret - v
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for epoch in range(4):
        for idx in torch.randperm(128).split(32):
            dist, v = net(s[idx])
            ratio = (dist.log_prob(a[idx]) - old[idx]).exp()
            surr = torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx])
            loss = -surr.mean() + 0.5 * (v - ret[idx]).pow(2).mean() - 0.01 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
    print(it, ret.mean().item())
