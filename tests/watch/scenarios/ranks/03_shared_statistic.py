import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    x = torch.randn(3, 4)
    spread = x.std()
    if step == 1 and dist.get_rank() == 0:
        spread = torch.sqrt(-spread)
    dist.all_reduce(spread)
    (net(x) / spread).sum().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
