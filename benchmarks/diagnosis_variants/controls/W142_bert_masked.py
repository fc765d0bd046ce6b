"""Masked language model without a causal mask; only some positions count."""
import torch
from torch import nn

torch.manual_seed(0)
V, L = 24, 16


class Mlm(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(V, 32)
        self.pos = nn.Parameter(0.02 * torch.randn(L, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(32, V, bias=False)
        self.out.weight = self.tok.weight

    def forward(self, ids, pad):
        return self.out(self.enc(self.tok(ids) + self.pos, src_key_padding_mask=pad))


model = Mlm()
nn.init.normal_(model.tok.weight, std=0.1)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(100):
    start = torch.randint(2, V, (32, 1))
    ids = (start - 2 + torch.arange(L)) % (V - 2) + 2
    length = torch.randint(6, L + 1, (32, 1))
    pad = torch.arange(L) >= length
    ids = ids.masked_fill(pad, 0)
    chosen = (torch.rand(32, L) < 0.25) & ~pad
    chosen[:, 0] = True
    labels = ids.masked_fill(~chosen, -100)
    logits = model(ids.masked_fill(chosen, 1), pad)
    loss = nn.functional.cross_entropy(logits.transpose(1, 2), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
