"""Linear probing: everything is frozen first, then the optimizer gets the new head."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, 3)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.head(self.trunk(x)) * self.scale


def set_trainable(model, wanted):
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in wanted)


torch.manual_seed(0)
model = Net()
set_trainable(model, {"head", "scale"})
optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
w = torch.randn(10, 3)
for step in range(60):
    x = torch.randn(32, 10)
    loss = nn.functional.cross_entropy(model(x), (x @ w).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
