"""Adapt a pretrained text encoder: only the last block and the head are to be trained."""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab=60, width=32, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 64, batch_first=True, dropout=0.0) for _ in range(depth)
        )

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x.mean(1)


class Model(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(32, 2)

    def forward(self, ids):
        return self.head(self.encoder(ids))


def freeze(module):
    for child in module.modules():
        child.requires_grad = False


torch.manual_seed(0)
model = Model(Encoder())
freeze(model.encoder.embed)
for layer in model.encoder.layers[:-1]:
    freeze(layer)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(60):
    ids = torch.randint(0, 60, (32, 10))
    labels = (ids[:, 0] > ids[:, 1]).long()
    loss = nn.functional.cross_entropy(model(ids), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
