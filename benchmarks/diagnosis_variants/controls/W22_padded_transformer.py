import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 32, padding_idx=0)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(32, 3)

    def forward(self, ids):
        pad = ids == 0
        h = self.encoder(self.emb(ids), src_key_padding_mask=pad)
        keep = (~pad).float()[..., None]
        return self.out((h * keep).sum(1) / keep.sum(1))


torch.manual_seed(71)
label = torch.randint(0, 3, (300,))
ids = torch.randint(1, 16, (300, 14)) + 16 * label[:, None]
ids[torch.arange(14)[None] >= torch.randint(4, 14, (300, 1))] = 0
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(4):
    for i in torch.randperm(300).split(30):
        loss = nn.functional.cross_entropy(model(ids[i]), label[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
