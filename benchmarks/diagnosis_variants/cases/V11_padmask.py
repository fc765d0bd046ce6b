import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, vocab=50, dim=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.out = nn.Linear(dim, 3)

    def forward(self, ids):
        mask = ids != 0
        h = self.emb(ids)
        h, _ = self.attn(h, h, h, key_padding_mask=mask)
        return self.out(h[:, 0])


torch.manual_seed(10)
label = torch.randint(0, 3, (400,))
ids = torch.randint(1, 16, (400, 14)) + 16 * label[:, None]
ids[torch.arange(14)[None] >= torch.randint(4, 13, (400, 1))] = 0
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(5):
    for i in torch.randperm(400).split(40):
        loss = nn.functional.cross_entropy(model(ids[i]), label[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
