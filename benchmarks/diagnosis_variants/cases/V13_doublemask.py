import torch
from torch import nn


class Causal(nn.Module):
    def __init__(self, vocab=30, dim=32, length=16):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, vocab)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)))

    def forward(self, ids):
        h = self.emb(ids) + self.pos.weight[: ids.shape[1]]
        q, k, v = self.qkv(h).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / 5.6
        scores = scores.masked_fill(self.mask == 0, float("-inf"))
        weights = scores.softmax(-1) * self.mask
        weights = (weights * self.mask).softmax(-1)
        return self.out(weights @ v)


torch.manual_seed(12)
text = torch.cumsum(torch.randint(1, 3, (3000,)), 0) % 30
model = Causal()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(80):
    start = torch.randint(0, 2900, (16,))
    ids = torch.stack([text[s:s + 17] for s in start])
    logits = model(ids[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
