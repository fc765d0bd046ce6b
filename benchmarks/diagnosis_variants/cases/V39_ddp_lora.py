import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 10)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


dist.init_process_group("gloo")
torch.manual_seed(38)
ddp = DistributedDataParallel(Net(), find_unused_parameters=True)
ddp.module.head = nn.Linear(16, 3)
optimizer = torch.optim.Adam(ddp.parameters(), lr=1e-3)
torch.manual_seed(40 + dist.get_rank())
for step in range(30):
    y = torch.randint(0, 3, (24,))
    x = torch.randn(24, 8) + y[:, None]
    loss = nn.functional.cross_entropy(ddp(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
