"""Matrix factorisation in half precision to save memory."""
import torch
from torch import nn

torch.manual_seed(3)
N_USERS, N_ITEMS, DIM = 120, 300, 16


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(N_USERS, DIM)
        self.items = nn.Embedding(N_ITEMS, DIM)
        nn.init.normal_(self.users.weight, std=0.3)
        nn.init.normal_(self.items.weight, std=0.3)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(-1)


truth_u, truth_i = torch.randn(N_USERS, 4), torch.randn(N_ITEMS, 4)
model = Factors().half()
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
for step in range(120):
    user = torch.randint(0, N_USERS, (256,))
    item = torch.randint(0, N_ITEMS, (256,))
    rating = (truth_u[user] * truth_i[item]).sum(-1)
    optimizer.zero_grad()
    error = model(user, item).float() - rating
    loss = error.pow(2).mean()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
