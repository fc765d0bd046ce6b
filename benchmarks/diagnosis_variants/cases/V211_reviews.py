import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab=50, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.classify = nn.Linear(dim, 2)

    def forward(self, ids, mask):
        h = self.embed(ids)
        a, _ = self.attention(h, h, h, key_padding_mask=mask, need_weights=False)
        h = self.norm(h + a) * (ids != 0).unsqueeze(-1)
        return self.classify(h.sum(1) / (ids != 0).sum(1, keepdim=True))


def batch(n, g):
    lengths = torch.randint(4, 16, (n,), generator=g)
    ids = torch.randint(1, 50, (n, 16), generator=g)
    mask = torch.arange(16)[None] < lengths[:, None]
    ids = ids * mask
    return ids, mask, (ids == 7).any(1).long()


g = torch.Generator().manual_seed(1)
torch.manual_seed(1)
net = Encoder()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(120):
    ids, mask, y = batch(32, g)
    loss = nn.functional.cross_entropy(net(ids, mask), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
