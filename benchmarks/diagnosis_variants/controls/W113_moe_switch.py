import torch
from torch import nn


class Switch(nn.Module):
    def __init__(self, d=16, experts=6):
        super().__init__()
        self.gate = nn.Linear(d, experts)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Linear(32, d)) for _ in range(experts))

    def forward(self, x):
        p = self.gate(x).softmax(-1)
        top, which = p.max(-1)
        out = torch.zeros_like(x)
        for i, e in enumerate(self.experts):
            rows = which == i
            if rows.any():
                out[rows] = top[rows].unsqueeze(1) * e(x[rows])
        return x + out


torch.manual_seed(7)
net = nn.Sequential(nn.Linear(10, 16), Switch(), nn.LayerNorm(16), nn.Linear(16, 3))
with torch.no_grad():
    net[1].gate.bias[4:] = -20  # two experts wait for later
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
w = torch.randn(10, 3)
for step in range(120):
    x = torch.randn(32, 10)
    loss = nn.functional.cross_entropy(net(x), (x @ w).argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
