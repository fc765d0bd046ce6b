import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 64), nn.Tanh())
        self.pi = nn.Linear(64, 4)
        self.v = nn.Linear(64, 1)

    def forward(self, s):
        h = self.trunk(s)
        return self.pi(h), self.v(h).squeeze(-1)


def update(agent, opt, scaler, states, actions, returns):
    with torch.autocast("cpu", dtype=torch.float16):
        logits, value = agent(states)
    dist = torch.distributions.Categorical(logits=logits.float())
    adv = returns - value.float()
    loss = -(dist.log_prob(actions) * adv.detach()).mean() + 0.5 * adv.square().mean()
    opt.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    scaler.step(opt)
    scaler.update()
    return loss.item()


torch.manual_seed(503)
agent = Agent()
opt = torch.optim.Adam(agent.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for it in range(100):
    s = torch.randn(128, 6)
    with torch.no_grad():
        a = torch.distributions.Categorical(logits=agent(s)[0]).sample()
    r = (a == s[:, :4].argmax(1)).float()
    shown = update(agent, opt, scaler, s, a, r)
    if it % 20 == 0:
        print(it, r.mean().item(), shown)
