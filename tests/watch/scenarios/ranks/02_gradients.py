import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    out = net(torch.randn(3, 4)).abs()
    if step == 1 and dist.get_rank() == 0:
        out[:, 0] *= torch.log(-out[:, 0])
    out.sum().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
