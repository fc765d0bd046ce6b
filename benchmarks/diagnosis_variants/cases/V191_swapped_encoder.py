import torch
from torch import nn


class Tabular(nn.Module):
    def __init__(self, sizes, numeric):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(s, 4) for s in sizes)
        self.mlp = nn.Sequential(nn.Linear(4 * len(sizes) + numeric, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, cats, nums):
        parts = [e(cats[:, i]) for i, e in enumerate(self.embeddings)]
        return self.mlp(torch.cat([*parts, nums], 1))[:, 0]


def grow(model, column, size):
    """A new shop was opened: the table needs more rows."""
    old = model.embeddings[column]
    new = nn.Embedding(size, old.embedding_dim)
    with torch.no_grad():
        new.weight[: old.num_embeddings] = old.weight
    model.embeddings[column] = new


torch.manual_seed(23)
model = Tabular([12, 7], 3)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
effect = torch.randn(20)
for day in range(160):
    if day == 20:
        grow(model, 0, 20)
    shops = 20 if day >= 20 else 12
    cats = torch.stack([torch.randint(0, shops, (64,)), torch.randint(0, 7, (64,))], 1)
    nums = torch.randn(64, 3)
    target = effect[cats[:, 0]] + nums[:, 1]
    loss = nn.functional.mse_loss(model(cats, nums), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if day % 20 == 0:
        print(day, loss.item())
