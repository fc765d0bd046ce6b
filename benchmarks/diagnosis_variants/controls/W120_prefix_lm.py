"""Prefix LM: the prefix attends to itself both ways; only the rest is predicted. Prompt is zero at first."""
import torch
from torch import nn


class Prefix(nn.Module):
    def __init__(self, v=30, d=32, soft=4):
        super().__init__()
        self.e = nn.Embedding(v, d)
        self.prompt = nn.Parameter(torch.zeros(1, soft, d))
        self.pos = nn.Parameter(torch.randn(1, 40, d) * 0.02)
        self.block = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(d, v)

    def forward(self, ids):
        x = torch.cat([self.prompt.expand(len(ids), -1, -1), self.e(ids)], 1)
        x = x + self.pos[:, : x.shape[1]]
        n, p = x.shape[1], self.prompt.shape[1] + 5
        mask = torch.triu(torch.full((n, n), float("-inf")), 1)
        mask[:p, :p] = 0
        return self.out(self.block(x, src_mask=mask))[:, self.prompt.shape[1] :]


torch.manual_seed(14)
net = Prefix()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(120):
    start = torch.randint(0, 30, (16, 1))
    ids = (start + torch.arange(16) * torch.randint(1, 4, (16, 1))) % 30
    out = net(ids[:, :-1])
    loss = nn.functional.cross_entropy(out[:, 5:].reshape(-1, 30), ids[:, 6:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
