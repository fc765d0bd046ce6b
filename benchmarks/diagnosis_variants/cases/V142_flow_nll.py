import math
import torch
from torch import nn

torch.manual_seed(312)


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, x):
        a, b = x[:, :1], x[:, 1:]
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, 1)
        s = torch.tanh(s)
        b = b * s.exp() + t
        return (torch.cat([b, a], 1) if self.flip else torch.cat([a, b], 1)), s.sum(1)


layers = nn.ModuleList(Coupling(i % 2 == 1) for i in range(4))
optimizer = torch.optim.SGD(layers.parameters(), lr=0.05, momentum=0.9)


def nll(x):
    log_det = 0
    for layer in layers:
        x, d = layer(x)
        log_det = log_det + d
    return (0.5 * x.square().sum(1) + math.log(2 * math.pi) - log_det).sum()


for step in range(100):
    angle = 3.14 * torch.rand(256)
    x = torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(256, 2)
    loss = nll(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item() / 256)
