import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 1))
outer = torch.optim.Adam(net.parameters(), lr=1e-3)
for iteration in range(40):
    total = 0.0
    for task in range(4):
        phase = torch.rand(1) * 3
        x = torch.rand(20, 1) * 6 - 3
        y = torch.sin(x + phase)
        weights = dict(net.named_parameters())
        inner = nn.functional.mse_loss(functional_call(net, weights, (x[:10],)), y[:10])
        gradients = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        weights = {k: w - 0.05 * g for (k, w), g in zip(weights.items(), gradients)}
        total = total + nn.functional.mse_loss(functional_call(net, weights, (x[10:],)), y[10:])
    outer.zero_grad()
    (total / 4).backward()
    outer.step()
print(total.item())
