import math

import torch
from torch import nn


class LM(nn.Module):
    def __init__(self, vocab=40, dim=32, length=24):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, 0.1, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        n = ids.shape[1]
        mask = torch.triu(torch.full((n, n), float("-inf")), 1)
        return self.head(self.blocks(self.wte(ids) + self.wpe(torch.arange(n)), mask=mask))


torch.manual_seed(4)
lm = LM()
opt = torch.optim.AdamW(lm.parameters(), lr=2e-3, betas=(0.9, 0.95))
warm = torch.optim.lr_scheduler.LambdaLR(
    opt, lambda s: min(1, (s + 1) / 20) * 0.5 * (1 + math.cos(math.pi * min(s, 120) / 120))
)
text = (torch.arange(3000) * 7 + torch.randint(0, 4, (3000,))) % 40
for step in range(110):
    at = torch.randint(0, 2970, (16,))
    ids = torch.stack([text[a : a + 24] for a in at])
    loss = nn.functional.cross_entropy(lm(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), label_smoothing=0.1)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
    opt.step()
    warm.step()
    if step % 25 == 0:
        print(step, loss.item())
