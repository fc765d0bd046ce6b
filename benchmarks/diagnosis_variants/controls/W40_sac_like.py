import copy

import torch
from torch import nn

torch.manual_seed(0)


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


actor, q1, q2 = mlp(3, 2), mlp(4, 1), mlp(4, 1)
old1, old2 = copy.deepcopy(q1), copy.deepcopy(q2)
log_alpha = torch.zeros(1, requires_grad=True)
opt_actor = torch.optim.Adam(actor.parameters(), lr=1e-3)
opt_critic = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=1e-3)
opt_alpha = torch.optim.Adam([log_alpha], lr=1e-3)


def act(states):
    mean, log_std = actor(states).chunk(2, 1)
    normal = torch.distributions.Normal(mean, log_std.clamp(-4, 1).exp())
    raw = normal.rsample()
    action = torch.tanh(raw)
    return action, (normal.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)).sum(1, keepdim=True)


for step in range(80):
    s, n = torch.randn(32, 3), torch.randn(32, 3)
    a = torch.rand(32, 1) * 2 - 1
    r = -(a - s[:, :1]).pow(2)
    with torch.no_grad():
        na, logp = act(n)
        nq = torch.min(old1(torch.cat([n, na], 1)), old2(torch.cat([n, na], 1))) - log_alpha.exp() * logp
        y = r + 0.9 * nq
    sa = torch.cat([s, a], 1)
    critic_loss = nn.functional.mse_loss(q1(sa), y) + nn.functional.mse_loss(q2(sa), y)
    opt_critic.zero_grad()
    critic_loss.backward()
    opt_critic.step()
    na, logp = act(s)
    actor_loss = (log_alpha.exp().detach() * logp - torch.min(q1(torch.cat([s, na], 1)), q2(torch.cat([s, na], 1)))).mean()
    opt_actor.zero_grad()
    actor_loss.backward()
    opt_actor.step()
    alpha_loss = -(log_alpha * (logp.detach() - 1)).mean()
    opt_alpha.zero_grad()
    alpha_loss.backward()
    opt_alpha.step()
    with torch.no_grad():
        for old, new in ((old1, q1), (old2, q2)):
            for o, w in zip(old.parameters(), new.parameters()):
                o.mul_(0.995).add_(w, alpha=0.005)
print(critic_loss.item())
