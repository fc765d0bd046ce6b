import torch
from torch import nn


class SetScorer(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.proj = nn.Linear(d, d)
        self.score = nn.Linear(d, 1)
        self.out = nn.Linear(d, 2)

    def forward(self, items):
        h = torch.tanh(self.proj(items))
        weights = torch.softmax(self.score(h), dim=-1)
        return self.out((weights * h).sum(1))


torch.manual_seed(19)
net = SetScorer()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
key = torch.randn(16)
for step in range(150):
    items = torch.randn(48, 7, 16)
    best = (items @ key).argmax(1)
    y = (items[torch.arange(48), best, 0] > 0).long()
    loss = nn.functional.cross_entropy(net(items), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
