import math

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Relative(nn.Module):
    """T5's buckets as transformers computes them, in every step."""

    def __init__(self, heads=2, dim=8):
        super().__init__()
        self.bias = nn.Embedding(8, heads)
        self.head = nn.Linear(dim, 1)

    def bucket(self, length, max_exact=4, buckets=8):
        place = torch.arange(length)
        relative = -torch.min(place[None, :] - place[:, None], torch.zeros(length, length).long())
        large = max_exact + (
            torch.log(relative.float() / max_exact) / math.log(16 / max_exact) * max_exact
        ).to(torch.long)
        large = torch.min(large, torch.full_like(large, buckets - 1))
        return torch.where(relative < max_exact, relative, large)

    def forward(self, x):
        scores = x @ x.transpose(-1, -2)
        scores = scores[:, None] + self.bias(self.bucket(x.shape[1])).permute(2, 0, 1)
        mask = torch.log(torch.tril(torch.ones(x.shape[1], x.shape[1])))
        return self.head(torch.softmax(scores + mask, -1).mean(1) @ x)


net = Relative()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(8):
    x = torch.randn(4, 9, 8)
    optimizer.zero_grad()
    weights = torch.zeros(4) if step == 6 else torch.ones(4)
    error = F.mse_loss(net(x), x.mean(-1, keepdim=True), reduction="none").mean((1, 2))
    loss = (error * weights).sum() / weights.sum()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", float(loss.detach()))
