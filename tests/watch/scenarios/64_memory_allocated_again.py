import ctypes

import torch
from torch import nn

torch.manual_seed(0)


class Buffered(nn.Module):
    """Frees the memory of a buffer after use, as FSDP does, and allocates it again."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("held", torch.zeros(8, 4))

    def forward(self, x):
        storage = self.held.untyped_storage()
        storage.resize_(0)
        storage.resize_(8 * 4 * 4)
        ctypes.memset(self.held.data_ptr(), 0xFF, 8 * 4 * 4)  # NaN, as the allocator may give it
        self.held.view(2, 4, 4).copy_(x.view(2, 4, 4))
        return self.fc(self.held * 2)


net = Buffered()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(8, 4)
    if step == 2:
        x = torch.log(x)
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", float(loss.detach()))
