"""An own optimizer that works on flat parameters."""
import torch
from torch import nn


class FlatMomentum(torch.optim.Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9):
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "buffer" not in state:
                    state["buffer"] = torch.zeros(p.numel())
                buffer = state["buffer"].mul_(group["momentum"]).add_(p.grad.reshape(-1))
                p.reshape(-1).sub_(buffer, alpha=group["lr"])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))


torch.manual_seed(0)
net = Net().to(memory_format=torch.channels_last)
optimizer = FlatMomentum(net.parameters(), lr=0.02)
for step in range(60):
    y = torch.randint(0, 4, (32,))
    x = torch.randn(32, 3, 8, 8) + 0.4 * y[:, None, None, None]
    loss = nn.functional.cross_entropy(net(x.to(memory_format=torch.channels_last)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
