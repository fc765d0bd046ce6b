import torch
from torch import nn


class SignSGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    flat = p.reshape(-1)
                    flat.sub_(group["lr"] * p.grad.reshape(-1).sign())


torch.manual_seed(32)
model = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 2))
model[0].weight = nn.Parameter(torch.randn(10, 24).mul(0.2).t())
optimizer = SignSGD(model.parameters(), lr=1e-3)
y = torch.randint(0, 2, (300,))
x = torch.randn(300, 10) + y[:, None]
for epoch in range(4):
    for i in torch.randperm(300).split(30):
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
