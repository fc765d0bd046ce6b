"""Evolution strategy gives the gradient by hand to Adam: no graph, gradients are assigned."""
import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
parameters = list(policy.parameters())
optimizer = torch.optim.Adam(parameters, lr=0.02)


def fitness(x):
    return -(policy(x).squeeze(1) - x.sum(1).tanh()).square().mean()


for step in range(60):
    x = torch.randn(64, 3)
    gradients = [torch.zeros_like(p) for p in parameters]
    with torch.no_grad():
        for _ in range(8):
            noise = [torch.randn_like(p) for p in parameters]
            for p, n in zip(parameters, noise):
                p.add_(n, alpha=0.05)
            plus = fitness(x)
            for p, n in zip(parameters, noise):
                p.add_(n, alpha=-0.1)
            minus = fitness(x)
            for p, n, g in zip(parameters, noise, gradients):
                p.add_(n, alpha=0.05)
                g.add_(n, alpha=-((plus - minus) / (0.1 * 8)).item())
    for p, g in zip(parameters, gradients):
        p.grad = g
    optimizer.step()
    if step % 10 == 0:
        print(step, fitness(x).item())
