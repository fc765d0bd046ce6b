import math
import torch
from torch import nn

torch.manual_seed(411)


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))
        nn.init.zeros_(self.net[2].weight)
        nn.init.zeros_(self.net[2].bias)

    def forward(self, x):
        a, b = x.flip(1).chunk(2, 1) if self.flip else x.chunk(2, 1)
        s, t = self.net(a).chunk(2, 1)
        s = torch.tanh(s)
        y = torch.cat([a, b * s.exp() + t], 1)
        return (y.flip(1) if self.flip else y), s.sum(1)


layers = nn.ModuleList(Coupling(i % 2 == 1) for i in range(4))
opt = torch.optim.Adam(layers.parameters(), lr=5e-3)
for step in range(150):
    angle = 3.14 * torch.rand(256)
    x = torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(256, 2)
    log_det = 0
    for layer in layers:
        x, d = layer(x)
        log_det = log_det + d
    loss = (0.5 * x.square().sum(1) + math.log(2 * math.pi) - log_det).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
