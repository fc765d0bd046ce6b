import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, words=120, tags=9, dim=24):
        super().__init__()
        self.bag = nn.EmbeddingBag(words, dim, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(dim, 48), nn.ReLU(), nn.Linear(48, tags))

    def forward(self, words):
        return torch.sigmoid(self.mlp(self.bag(words)))


torch.manual_seed(0)
words = torch.randint(0, 120, (700, 12))
tags = torch.stack([(words % 9 == k).sum(1) > 1 for k in range(9)], 1).float()
model = Tagger()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(6):
    for idx in torch.randperm(700).split(50):
        optimizer.zero_grad()
        loss = criterion(model(words[idx]), tags[idx])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
