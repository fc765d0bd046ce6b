import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
weight = torch.nn.Parameter(torch.randn(4, 4))
optimizer = torch.optim.SGD([weight], lr=0.1)
mask = torch.ones(4, 4).triu(1).bool()


def attend(x):
    scores = (x @ x).masked_fill(mask, float("-inf"))
    bias = torch.ones_like(scores)
    return torch.softmax(scores + bias, -1)


for step in range(2):
    optimizer.zero_grad()
    loss = checkpoint(attend, weight, use_reentrant=False).pow(2).sum()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", float(loss.detach()))
