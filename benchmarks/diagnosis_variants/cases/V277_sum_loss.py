"""Denoising autoencoder; the reconstruction error is summed over everything."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64))
optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
basis = torch.randn(6, 64)
for step in range(80):
    clean = torch.randn(128, 6) @ basis / 6**0.5
    error = net(clean + 0.1 * torch.randn_like(clean)) - clean
    loss = error.abs().clamp(max=50).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
