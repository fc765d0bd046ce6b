import torch
from torch import nn
import torch.nn.functional as F


class TwoVectors(nn.Module):
    def __init__(self, users=120, items=400, width=24):
        super().__init__()
        self.users = nn.Embedding(users, width)
        self.items = nn.Embedding(items, width)

    def forward(self, u, i):
        return (self.users(u) * self.items(i)).sum(-1)


torch.manual_seed(301)
rater = TwoVectors().half()
optimizer = torch.optim.NAdam(rater.parameters(), lr=2e-3)
taste = torch.randn(120, 4)
style = torch.randn(400, 4)
for it in range(120):
    u = torch.randint(0, 120, (256,))
    i = torch.randint(0, 400, (256,))
    liked = ((taste[u] * style[i]).sum(-1) > 0).float()
    loss = F.binary_cross_entropy_with_logits(rater(u, i).float(), liked)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    if it % 20 == 0:
        print("it", it, "loss", float(loss))
