import ctypes

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

# Memory is NaN until it is filled, as the allocator may give it: torch fills that of empty(),
# this script that of the buffers which FSDP frees and allocates again.
torch.use_deterministic_algorithms(True)
allocate = torch.UntypedStorage.resize_


def resize_(storage, size):
    allocate(storage, size)
    ctypes.memset(storage.data_ptr(), 0xFF, size)


torch.UntypedStorage.resize_ = resize_

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in (net[0], net[2], net):
    fully_shard(layer, mp_policy=policy)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(3):
    optimizer.zero_grad()
    loss = net(torch.randn(4, 6)).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    assert bool(loss.isfinite())
dist.destroy_process_group()
