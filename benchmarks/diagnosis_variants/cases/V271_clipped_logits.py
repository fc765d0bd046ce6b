"""Multi-layer perceptron from a helper that adds an activation after every layer."""
import torch
from torch import nn


def mlp(*widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers)


torch.manual_seed(0)
model = mlp(10, 48, 48, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
w = torch.randn(10)
for step in range(100):
    x = torch.randn(64, 10)
    y = (x @ w > 0).float()
    loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
