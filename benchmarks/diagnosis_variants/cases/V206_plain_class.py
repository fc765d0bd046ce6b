import torch
from torch import nn


class UserTower:
    def __init__(self, n, d):
        self.embedding = nn.Embedding(n, d)
        self.mlp = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))

    def __call__(self, ids):
        return self.mlp(self.embedding(ids))


class Recommender(nn.Module):
    def __init__(self, users=50, items=80, d=16):
        super().__init__()
        self.user_tower = UserTower(users, d)
        self.item_embedding = nn.Embedding(items, d)
        self.bias = nn.Parameter(torch.zeros(items))

    def forward(self, u, i):
        return (self.user_tower(u) * self.item_embedding(i)).sum(-1) + self.bias[i]


torch.manual_seed(0)
taste_u, taste_i = torch.randn(50, 3), torch.randn(80, 3)
model = Recommender()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
for step in range(200):
    u, i = torch.randint(0, 50, (128,)), torch.randint(0, 80, (128,))
    liked = ((taste_u[u] * taste_i[i]).sum(-1) > 0).float()
    loss = nn.functional.binary_cross_entropy_with_logits(model(u, i), liked)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
