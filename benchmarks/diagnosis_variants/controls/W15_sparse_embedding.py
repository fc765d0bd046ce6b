import torch
from torch import nn

torch.manual_seed(64)
users, items = nn.Embedding(200, 16, sparse=True), nn.Embedding(500, 16, sparse=True)
bias = nn.Parameter(torch.zeros(()))
sparse = torch.optim.SparseAdam([*users.parameters(), *items.parameters()], lr=1e-2)
dense = torch.optim.Adam([bias], lr=1e-2)
for step in range(80):
    u, i = torch.randint(0, 200, (64,)), torch.randint(0, 500, (64,))
    rating = ((u + i) % 2).float()
    loss = nn.functional.binary_cross_entropy_with_logits((users(u) * items(i)).sum(1) + bias, rating)
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
