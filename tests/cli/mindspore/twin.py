"""perceptron.py in PyTorch; with an argument, another activation function."""

import sys

import numpy as np
import torch
from torch import nn

STEPS, BATCH = 4, 5


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 8)
        self.act = nn.ReLU() if len(sys.argv) < 2 else nn.GELU()
        self.fc2 = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


torch.set_num_threads(1)
chance = np.random.default_rng(5)
X = chance.standard_normal((STEPS * BATCH, 6)).astype(np.float32)
Y = chance.integers(0, 3, STEPS * BATCH).astype(np.int64)
net = Perceptron()
with torch.no_grad():
    for parameter in net.parameters():
        values = chance.standard_normal(tuple(parameter.shape)).astype(np.float32) * 0.3
        parameter.copy_(torch.from_numpy(values))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for step in range(STEPS):
    part = slice(step * BATCH, (step + 1) * BATCH)
    loss = nn.functional.cross_entropy(net(torch.from_numpy(X[part])), torch.from_numpy(Y[part]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step: {step}, loss is {loss.item()}")
