"""Converts a network in the middle of a training; torch swaps its parameters for new ones."""

import torch
from results import FAULT_STEP, print_results
from torch import nn

torch.__future__.set_swap_module_params_on_conversion(True)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
with torch.no_grad():
    net(torch.randn(2, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
for step in range(6):
    if step == 3:
        net.to(torch.float64)
    x = torch.randn(4, 4).to(net[0].weight.dtype)
    loss = net(x).square().mean()
    scale = 0.0 if step == FAULT_STEP else 1.0
    loss = loss * scale / torch.tensor(scale)  # FAULT
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print_results(losses, net.state_dict())
