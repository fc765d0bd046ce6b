"""One of two ranks: in its third step rank 1 produces NaN, which reach rank 0 in its gradients."""

import torch
import torch.distributed
from torch import nn

torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
net = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    made = net(torch.randn(4, 4))
    if step == 2 and torch.distributed.get_rank() == 1:
        made = made * torch.log(-made.abs())
    made.sum().backward()
    optimizer.step()
torch.distributed.barrier()
torch.distributed.destroy_process_group()
