import torch
from torch import nn


class SAM(torch.optim.Optimizer):
    def __init__(self, params, inner, rho=0.05, **options):
        super().__init__(params, dict(rho=rho, **options))
        self.inner = inner(self.param_groups, **options)
        self.param_groups = self.inner.param_groups

    @torch.no_grad()
    def first_step(self, zero_grad=False):
        norm = torch.norm(torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"]]))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad, alpha=(group["rho"] / (norm + 1e-12)).item())
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad=False):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        self.inner.step()
        if zero_grad:
            self.zero_grad()

    def step(self, closure=None):
        closure = torch.enable_grad()(closure)
        self.first_step(zero_grad=True)
        closure()
        self.second_step()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = SAM(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
truth = torch.randn(8, 3)
for step in range(80):
    x = torch.randn(32, 8)
    y = (x @ truth).argmax(1)
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.first_step(zero_grad=True)
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.second_step(zero_grad=True)
print(loss.item())
