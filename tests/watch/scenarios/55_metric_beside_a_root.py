import torch
from torch import nn


class Root(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            torch.where(x > 0, torch.log(x), torch.zeros(4))
        return x.pow(0.5)


weight = torch.nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
root = Root()
for step in range(1):
    optimizer.zero_grad()
    loss = root(weight * 1).sum()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", float(loss.detach()))
