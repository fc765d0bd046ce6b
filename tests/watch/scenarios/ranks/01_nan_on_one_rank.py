import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    out = net(torch.randn(3, 4)).abs()
    if step == 1 and dist.get_rank() == 1:
        out = out * torch.log(-out)
    out.sum().backward()
    optimizer.step()
    # The ranks share a number that is finite, and nothing else.
    dist.all_reduce(torch.ones(1))
dist.barrier()
dist.destroy_process_group()
