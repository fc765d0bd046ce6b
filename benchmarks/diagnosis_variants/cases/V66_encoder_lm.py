import torch
from torch import nn


class LM(nn.Module):
    def __init__(self, vocabulary=32, width=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocabulary, width), nn.Embedding(24, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, ids):
        h = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        return self.out(self.blocks(h))


torch.manual_seed(0)
lm = LM()
optimizer = torch.optim.AdamW(lm.parameters(), lr=2e-3)
for step in range(100):
    ids = torch.randint(0, 32, (16, 13))
    logits = lm(ids[:, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, 32), ids[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
