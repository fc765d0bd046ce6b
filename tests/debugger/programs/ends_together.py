"""One of two ranks: prints how it ended, after a pause in its cleanup."""

import sys
import time

import torch
import torch.distributed
from torch import nn

torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
inner = (
    nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)) if "buffers" in sys.argv else nn.Linear(4, 4)
)
net = nn.parallel.DistributedDataParallel(inner)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
try:
    while True:
        optimizer.zero_grad()
        net(torch.randn(4, 4)).sum().backward()
        optimizer.step()
except KeyboardInterrupt as ended:
    time.sleep(0.3)
    print(f"{type(ended).__name__} {torch.distributed.get_rank()}", flush=True)
    raise
