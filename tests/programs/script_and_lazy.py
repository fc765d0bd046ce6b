"""A network with a part compiled by torch.jit.script, and layers that learn their sizes from the
first batch."""

import warnings

import torch
from results import FAULT_STEP, print_results
from torch import nn


class Gate(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = torch.relu(x)
        return x * torch.sigmoid(self.linear(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LazyLinear(8)
        self.norm = nn.LazyBatchNorm1d()
        self.gate = torch.jit.script(Gate(8))
        self.last = nn.LazyLinear(3)

    def forward(self, x):
        return self.last(self.gate(self.norm(self.first(x))))


warnings.simplefilter("ignore", DeprecationWarning)
torch.manual_seed(0)
model = Net()
model(torch.zeros(2, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
losses = []
for step in range(6):
    x = torch.randn(6, 5)
    loss = nn.functional.cross_entropy(model(x), x.argmax(1) % 3)
    scale = 0.0 if step == FAULT_STEP else 1.0
    loss = loss * scale / torch.tensor(scale)  # FAULT
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print_results(losses, model.state_dict())
