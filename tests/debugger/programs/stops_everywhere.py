"""A rank of several that stops by itself, without a launcher of Sonde."""

import torch

import sonde

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
sonde.breakpoint()
with sonde.debug():
    print("done", flush=True)
