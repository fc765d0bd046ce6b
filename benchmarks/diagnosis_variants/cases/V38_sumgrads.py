import torch
import torch.distributed as dist
from torch import nn


def average_gradients(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad.data, op=dist.ReduceOp.SUM)


dist.init_process_group("gloo")
torch.manual_seed(37)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
generator = torch.Generator().manual_seed(dist.get_rank())
for step in range(40):
    y = torch.randint(0, 4, (32,), generator=generator)
    x = torch.randn(32, 8, generator=generator) + y[:, None]
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    average_gradients(model)
    optimizer.step()
dist.destroy_process_group()
