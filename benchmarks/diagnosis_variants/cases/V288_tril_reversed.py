import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.ff = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x):
        t = x.size(1)
        allowed = torch.triu(torch.ones(t, t, dtype=torch.bool))
        scores = self.q(x) @ self.k(x).mT / x.size(-1) ** 0.5
        x = x + scores.masked_fill(~allowed, -1e9).softmax(-1) @ self.v(x)
        return x + self.ff(x)


class Lm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(12, 32), nn.Embedding(16, 32)
        self.blocks = nn.Sequential(Block(32), Block(32))
        self.out = nn.Linear(32, 12)

    def forward(self, ids):
        return self.out(self.blocks(self.embed(ids) + self.place.weight[: ids.size(1)]))


torch.manual_seed(0)
lm = Lm()
optimizer = torch.optim.RAdam(lm.parameters(), lr=3e-3)
for step in range(60):
    ids = torch.randint(0, 12, (24, 17))
    logits = lm(ids[:, :-1])
    loss = nn.functional.cross_entropy(logits.mT, ids[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 15 == 0:
        print(step, loss.item())
