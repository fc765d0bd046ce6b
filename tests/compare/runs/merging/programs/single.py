"""The reference: one process, whole batches; with an argument, so many micro-batches."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

count = int(sys.argv[1]) if len(sys.argv) > 1 else 1
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
g = torch.Generator().manual_seed(1)
data = TensorDataset(torch.randn(32, 8, generator=g), torch.randint(4, (32,), generator=g))
loader = DataLoader(data, batch_size=16)
for x, y in loader:
    opt.zero_grad()
    for some_x, some_y in zip(x.chunk(count), y.chunk(count), strict=True):
        loss = nn.functional.cross_entropy(net(some_x), some_y)
        if count > 1:
            loss = loss / count
        loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
