"""Tied transformer language model; linear warm-up from 0, then cosine."""
import math

import torch
from torch import nn


class Tiny(nn.Module):
    def __init__(self, vocab=32, width=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(24, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, x):
        n = x.shape[1]
        h = self.emb(x) + self.pos(torch.arange(n))
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        return self.head(self.layers(h, mask=mask, is_causal=True))


def rate(step, warm=20, total=120):
    if step < warm:
        return step / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))


torch.manual_seed(156)
lm = Tiny()
opt = torch.optim.AdamW(lm.parameters(), lr=3e-3, betas=(0.9, 0.95))
sched = torch.optim.lr_scheduler.LambdaLR(opt, rate)
for step in range(120):
    begin = torch.randint(0, 32, (16, 1))
    text = (begin + torch.arange(21) * torch.randint(1, 3, (16, 1))) % 32
    loss = nn.functional.cross_entropy(lm(text[:, :-1]).transpose(1, 2), text[:, 1:])
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(lm.parameters(), 0.5)
    opt.step()
    sched.step()
    if step % 30 == 0:
        print(step, loss.item(), sched.get_last_lr())
