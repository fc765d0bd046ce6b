import math
import torch
from torch import nn
from dataclasses import dataclass


@dataclass
class Config:
    vocab: int = 40
    dim: int = 32
    heads: int = 2
    layers: int = 2
    context: int = 24


class Mixer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q, self.k, self.v = (nn.Linear(c.dim, c.dim, bias=False) for _ in range(3))
        self.o = nn.Linear(c.dim, c.dim, bias=False)
        self.register_buffer("allowed", torch.tril(torch.ones(c.context, c.context)).bool())

    def forward(self, x):
        b, t, d = x.shape
        split = lambda z: z.view(b, t, self.c.heads, d // self.c.heads).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(d // self.c.heads)
        scores.masked_fill(~self.allowed[:t, :t], float("-inf"))
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class LM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok, self.pos = nn.Embedding(c.vocab, c.dim), nn.Embedding(c.context, c.dim)
        self.mix = nn.ModuleList(Mixer(c) for _ in range(c.layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.LayerNorm(c.dim), nn.Linear(c.dim, 64), nn.GELU(), nn.Linear(64, c.dim)) for _ in range(c.layers))
        self.head = nn.Linear(c.dim, c.vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for m, f in zip(self.mix, self.ff):
            x = x + m(x)
            x = x + f(x)
        return self.head(x)


torch.manual_seed(1)
cfg = Config()
model = LM(cfg)
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
jump = torch.randint(0, 40, (40, 3))
for step in range(120):
    seq = [torch.randint(0, 40, (16,))]
    for _ in range(cfg.context):
        seq.append(jump[seq[-1], torch.randint(0, 3, (16,))])
    seq = torch.stack(seq, 1)
    logits = model(seq[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), seq[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
