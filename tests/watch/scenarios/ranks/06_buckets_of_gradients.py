import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.use_deterministic_algorithms(True)  # Memory is NaN until it is filled.
dist.init_process_group("gloo")
torch.manual_seed(0)
net = DistributedDataParallel(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    optimizer.zero_grad()
    loss = net(torch.randn(4, 6)).pow(2).mean()
    loss.backward()
    optimizer.step()
    assert bool(loss.isfinite())
dist.destroy_process_group()
