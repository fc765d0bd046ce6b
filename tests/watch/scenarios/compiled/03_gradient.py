import torch
from torch import nn

torch.manual_seed(0)


class Norm(nn.Module):
    """The root of 0 is finite, its gradient is not."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        y = x * self.weight
        y = y - y
        y = torch.sqrt(y)
        return (y + 1).sum()


net = Norm()
run = torch.compile(net, backend=globals().get("BACKEND", "aot_eager"))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(3):
    optimizer.zero_grad()
    loss = run(torch.rand(3, 4) + 0.5)
    loss.backward()
    optimizer.step()
    print("step", step, "loss", float(loss.detach()))
