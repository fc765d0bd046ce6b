import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(25, 32, padding_idx=0)
        self.cls = nn.Parameter(torch.randn(1, 1, 32) * 0.1)
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(32, 2)

    def forward(self, ids):
        x = torch.cat([self.cls.expand(len(ids), 1, 32), self.embed(ids)], 1)
        pad = nn.functional.pad(ids == 0, (1, 0))
        return self.out(self.encoder(x, src_key_padding_mask=pad)[:, 0])


torch.manual_seed(0)
model = Reader()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(60):
    ids = torch.randint(1, 25, (32, 12)) * (torch.arange(12) < torch.randint(2, 13, (32, 1)))
    loss = nn.functional.cross_entropy(model(ids), (ids[:, 0] > 12).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
