import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
ranker = nn.Linear(16, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *ranker.parameters()], lr=0.05, momentum=0.9)


def encode(items):
    vectors = [encoder(item).detach().numpy() for item in items]
    return torch.from_numpy(np.stack(vectors))


w = torch.randn(16)
for step in range(80):
    left, right = torch.randn(24, 16), torch.randn(24, 16)
    score = ranker(torch.cat([encode(left), encode(right)], 1)).squeeze(1)
    loss = nn.functional.soft_margin_loss(score, torch.sign((left - right) @ w))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
