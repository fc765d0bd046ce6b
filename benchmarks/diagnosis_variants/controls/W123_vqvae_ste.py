import torch
from torch import nn


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class FSQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 4))
        self.dec = nn.Sequential(nn.Linear(4, 32), nn.SiLU(), nn.Linear(32, 16))

    def forward(self, x):
        z = Round.apply(torch.tanh(self.enc(x)) * 2)
        return self.dec(z)


torch.manual_seed(17)
net = FSQ()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
basis = torch.randn(3, 16)
for step in range(150):
    x = torch.randn(64, 3) @ basis
    loss = nn.functional.l1_loss(net(x), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
