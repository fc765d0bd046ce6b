import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(73 + dist.get_rank())
ddp = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)))
optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
for step in range(40):
    y = torch.randint(0, 3, (24,))
    x = torch.randn(24, 8) + y[:, None]
    if step % 2 == 0:
        with ddp.no_sync():
            nn.functional.cross_entropy(ddp(x), y).backward()
        continue
    nn.functional.cross_entropy(ddp(x), y).backward()
    nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
