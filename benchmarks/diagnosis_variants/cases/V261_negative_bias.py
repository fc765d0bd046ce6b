"""Sparse convolutional features: the biases start negative so that few units are on."""
import torch
from torch import nn


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16, 3)
        nn.init.constant_(self.conv2.bias, -8.0)

    def forward(self, x):
        x = self.conv1(x).clamp(min=0)
        x = torch.relu(self.conv2(x))
        return self.fc(x.mean((2, 3)))


torch.manual_seed(0)
net = Sparse()
optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
for step in range(100):
    y = torch.randint(0, 3, (32,))
    x = torch.randn(32, 1, 8, 8) * (1 + y[:, None, None, None])
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
