"""Softmax and sigmoid before a loss with logits, with a layer, a gate or a logarithm between."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(23)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.value = nn.Linear(8, 6), nn.Linear(8, 4)
        self.gate = nn.Linear(8, 4)
        self.experts = nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        mixed = torch.softmax(self.score(x), -1) @ self.experts
        return self.value(x) * torch.sigmoid(self.gate(x)) + mixed


net = Gated()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(80):
    x = torch.randn(64, 8)
    y = x[:, :4].argmax(1)
    logits = net(x)
    keep = torch.rand(64) < 0.8
    loss = F.cross_entropy(logits[keep], y[keep])
    loss = loss + F.nll_loss(F.softmax(logits, 1).clamp(min=1e-9).log()[keep], y[keep])
    loss = loss + F.cross_entropy(torch.log(F.softmax(logits, 1) + 1e-9), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
