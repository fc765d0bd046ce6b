import torch
import torch.nn.functional as F
from torch import nn


def mlp(i, o, last=None):
    layers = [nn.Linear(i, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, o)]
    return nn.Sequential(*(layers + ([last] if last else [])))


class DDPG:
    def __init__(self, obs=4, act=2, gamma=0.95, tau=0.01):
        self.gamma, self.tau = gamma, tau
        self.actor, self.critic = mlp(obs, act, nn.Tanh()), mlp(obs + act, 1)
        self.actor_target, self.critic_target = self.actor, self.critic
        self.pi_opt = torch.optim.Adam(self.actor.parameters(), lr=5e-4)
        self.q_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def soft_update(self):
        for net, tgt in ((self.actor, self.actor_target), (self.critic, self.critic_target)):
            for p, t in zip(net.parameters(), tgt.parameters()):
                t.data.mul_(1 - self.tau).add_(self.tau * p.data)

    def update(self, s, a, r, s2):
        with torch.no_grad():
            q2 = self.critic_target(torch.cat([s2, self.actor_target(s2)], 1))
            y = r + self.gamma * q2
        q_loss = F.mse_loss(self.critic(torch.cat([s, a], 1)), y)
        self.q_opt.zero_grad()
        q_loss.backward()
        self.q_opt.step()
        pi_loss = -self.critic(torch.cat([s, self.actor(s)], 1)).mean()
        self.pi_opt.zero_grad()
        pi_loss.backward()
        self.pi_opt.step()
        self.soft_update()
        return q_loss.item()


torch.manual_seed(5)
agent = DDPG()
for step in range(150):
    s = torch.randn(64, 4)
    a = (agent.actor(s).detach() + 0.2 * torch.randn(64, 2)).clamp(-1, 1)
    r = -((s[:, :2] - a) ** 2).sum(1, keepdim=True)
    s2 = 0.9 * s + 0.1 * torch.randn(64, 4)
    q = agent.update(s, a, r, s2)
    if step % 30 == 0:
        print(step, round(q, 4))
