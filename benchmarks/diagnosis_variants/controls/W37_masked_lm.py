import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
MASK = 40


class MLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.pos = nn.Embedding(41, 32), nn.Embedding(16, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(32, 41)

    def forward(self, ids):
        return self.out(self.enc(self.emb(ids) + self.pos.weight[: ids.shape[1]]))


model = MLM()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(80):
    ids = (torch.randint(0, 40, (16, 1)) + torch.arange(16)) % 40
    masked = torch.rand(16, 16) < 0.2
    given = ids.masked_fill(masked, MASK)
    labels = ids.masked_fill(~masked, -100)
    loss = F.cross_entropy(model(given).flatten(0, 1), labels.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
