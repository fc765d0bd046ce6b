import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(4)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 48), nn.Tanh())
        self.mean = nn.Linear(48, 1)
        self.log_std = nn.Parameter(torch.zeros(1))
        self.value = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 1))

    def forward(self, s):
        return Normal(self.mean(self.trunk(s)), self.log_std.exp()), self.value(s)


agent = ActorCritic()
opt = torch.optim.Adam(agent.parameters(), lr=3e-3)
state = torch.randn(16, 4)
for update in range(80):
    logps, values, rewards, entropy = [], [], [], 0.0
    for _ in range(6):
        dist, value = agent(state)
        action = dist.sample()
        rewards.append(-(state[:, :1] - action).square())
        logps.append(dist.log_prob(action))
        values.append(value)
        entropy = entropy + dist.entropy().mean()
        state = (0.9 * state + 0.1 * action.expand_as(state) + 0.3 * torch.randn_like(state)).detach()
    with torch.no_grad():
        run = agent(state)[1]
        returns = []
        for r in reversed(rewards):
            run = r + 0.9 * run
            returns.insert(0, run)
    returns, values, logps = torch.stack(returns), torch.stack(values), torch.stack(logps)
    advantage = (returns - values).detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    loss = -(logps * advantage).mean() + 0.5 * (returns - values).square().mean() - 0.001 * entropy
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    opt.step()
    if update % 20 == 0:
        print(update, torch.stack(rewards).mean().item())
