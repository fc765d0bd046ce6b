"""The update overflows; the loss of the next step is NaN, and the monitor ends the training."""

import torch
from torch import nn

from sonde.train import LossMonitor, Model

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=3e38)
data = [(torch.randn(5, 4), torch.randn(5, 1) * 10) for _ in range(4)]
Model(net, nn.MSELoss(), optimizer).train(1, data, callbacks=LossMonitor())
