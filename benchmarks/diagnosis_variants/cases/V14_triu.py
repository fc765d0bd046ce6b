import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.norm(x)).chunk(3, -1))
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.proj(y.transpose(1, 2).reshape(b, t, d))


class LM(nn.Module):
    def __init__(self, vocab=32, dim=32):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, dim), nn.Embedding(20, dim)
        self.blocks = nn.ModuleList(Block(dim, 4) for _ in range(2))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.emb(ids) + self.pos(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


torch.manual_seed(13)
model = LM()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.randint(0, 32, (200, 21))
for epoch in range(4):
    for i in torch.randperm(200).split(20):
        logits = model(data[i, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), data[i, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
