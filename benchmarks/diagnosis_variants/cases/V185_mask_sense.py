import torch
from torch import nn


class AttentivePool(nn.Module):
    """Attention over the visits of a patient."""

    def __init__(self, dim):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.query = nn.Parameter(torch.randn(1, 1, dim) * 0.1)

    def forward(self, x, valid):
        q = self.query.expand(len(x), -1, -1)
        pooled, _ = self.attn(q, x, x, key_padding_mask=valid)
        return pooled[:, 0]


class Readmission(nn.Module):
    def __init__(self, codes=60, dim=24):
        super().__init__()
        self.codes = nn.Embedding(codes, dim)
        self.pool = AttentivePool(dim)
        self.risk = nn.Linear(dim, 1)

    def forward(self, visits, valid):
        return self.risk(self.pool(self.codes(visits), valid))[:, 0]


torch.manual_seed(14)
model = Readmission()
opt = torch.optim.RAdam(model.parameters(), lr=3e-3)
for step in range(120):
    n_visits = torch.randint(2, 9, (40,))
    valid = torch.arange(10)[None] < n_visits[:, None]
    visits = torch.randint(1, 60, (40, 10)).masked_fill(~valid, 0)
    target = ((visits > 45) & valid).any(1).float()
    loss = nn.functional.binary_cross_entropy_with_logits(model(visits, valid), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
