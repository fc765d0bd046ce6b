import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(15)
ddp = DDP(nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 3)))
optimizer = torch.optim.Adam(ddp.parameters(), lr=1e-3)
torch.manual_seed(200 + dist.get_rank())
y = torch.randint(0, 3, (320,))
x = torch.randn(320, 10) + y[:, None]
for epoch in range(4):
    for i in torch.randperm(320).split(32):
        with ddp.no_sync():
            loss = nn.functional.cross_entropy(ddp(x[i]), y[i])
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
if dist.get_rank() == 0:
    print(loss.item())
dist.destroy_process_group()
