"""Matrix factorisation: sparse embeddings and a dense bias, an optimizer for each."""
import torch
from torch import nn


class Factors(nn.Module):
    def __init__(self, users, items, width=8):
        super().__init__()
        self.users = nn.Embedding(users, width, sparse=True)
        self.items = nn.Embedding(items, width, sparse=True)
        self.user_bias = nn.Embedding(users, 1, sparse=True)
        self.offset = nn.Parameter(torch.zeros(()))
        nn.init.zeros_(self.user_bias.weight)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(-1) + self.user_bias(user)[:, 0] + self.offset


torch.manual_seed(160)
taste, style = torch.randn(200, 4), torch.randn(300, 4)
model = Factors(200, 300)
sparse = torch.optim.SparseAdam([p for n, p in model.named_parameters() if n != "offset"], lr=0.02)
dense = torch.optim.SGD([model.offset], lr=0.1)
for step in range(200):
    user, item = torch.randint(0, 200, (256,)), torch.randint(0, 300, (256,))
    rating = (taste[user] * style[item]).sum(-1) / 2 + 3
    loss = nn.functional.mse_loss(model(user, item), rating)
    for each in (sparse, dense):
        each.zero_grad()
    loss.backward()
    for each in (sparse, dense):
        each.step()
    if step % 50 == 0:
        print(step, loss.item())
