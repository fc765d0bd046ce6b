import math
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.emb = nn.Embedding(40, dim, padding_idx=0)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, 2)

    def attend(self, x, keep):
        scores = self.query(x) @ self.key(x).transpose(1, 2) / math.sqrt(x.shape[-1])
        scores = scores.masked_fill(keep[:, None], -1e9)
        return scores.softmax(-1) @ x

    def forward(self, tokens):
        keep = tokens.ne(0)
        x = self.emb(tokens)
        return self.out(self.attend(x, keep)[:, 0])


torch.manual_seed(11)
label = torch.randint(0, 2, (320,))
tokens = torch.randint(1, 20, (320, 10)) + 20 * label[:, None] - label[:, None]
tokens[torch.arange(10)[None] >= torch.randint(3, 10, (320, 1))] = 0
model = Pool()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for epoch in range(5):
    for i in torch.randperm(320).split(32):
        loss = nn.functional.cross_entropy(model(tokens[i]), label[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
