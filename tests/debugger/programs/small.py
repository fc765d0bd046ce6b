"""A small training: prints its losses, exactly; ``nan_at`` steps from the end it takes a log of
negative numbers."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 4
bad_step = int(sys.argv[2]) if len(sys.argv) > 2 else -1

torch.manual_seed(0)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.act = nn.Tanh()
        self.fc2 = nn.Linear(16, 4)
        self.step = 0

    def forward(self, x):
        x = self.act(self.fc1(x))
        if self.step == bad_step:
            x = torch.log(x - 2)
        self.step += 1
        return self.fc2(x)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
data = torch.randn(32, 8)
target = torch.randn(32, 4)
for _ in range(steps):
    optimizer.zero_grad()
    loss = ((net(data) - target) ** 2).mean()
    loss.backward()
    optimizer.step()
    print(f"{float(loss).hex()}\n", end="", flush=True)  # one write: ranks share the pipe
print(f"{float(sum(p.double().sum() for p in net.parameters())).hex()}\n", end="")
