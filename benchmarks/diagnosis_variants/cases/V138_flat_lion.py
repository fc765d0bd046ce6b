import torch
from torch import nn


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99)):
        super().__init__(params, dict(lr=lr, betas=betas))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                g = p.grad.reshape(-1)
                m = state.setdefault("m", torch.zeros_like(g))
                direction = (b1 * m + (1 - b1) * g).sign()
                p.reshape(-1).sub_(direction, alpha=group["lr"])
                m.lerp_(g, 1 - b2)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        basis = torch.randn(20, 12) / 12**0.5
        self.mix = nn.Parameter(basis.t())
        self.gate = nn.Linear(20, 20)

    def forward(self, x):
        h = x @ self.mix
        return h * torch.sigmoid(self.gate(h))


torch.manual_seed(308)
encoder, head = Encoder(), nn.Linear(20, 3)
optimizer = Lion([*encoder.parameters(), *head.parameters()], lr=2e-3)
target = torch.randn(12, 3)
for epoch in range(4):
    for _ in range(30):
        x = torch.randn(48, 12)
        loss = nn.functional.mse_loss(head(encoder(x)), x @ target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, loss.item())
