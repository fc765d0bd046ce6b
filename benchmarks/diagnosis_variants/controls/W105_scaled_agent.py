import torch
from torch import nn

torch.manual_seed(605)
agent = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 4))
opt = torch.optim.Adam(agent.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
baseline = 0.0
for it in range(100):
    s = torch.randn(128, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        logits = agent(s)
    dist = torch.distributions.Categorical(logits=logits.float())
    a = dist.sample()
    r = (a == s[:, :4].argmax(1)).float()
    loss = -(dist.log_prob(a) * (r - baseline)).mean() - 0.01 * dist.entropy().mean()
    baseline = 0.9 * baseline + 0.1 * r.mean().item()
    opt.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    scaler.step(opt)
    scaler.update()
    if it % 20 == 0:
        print(it, r.mean().item())
