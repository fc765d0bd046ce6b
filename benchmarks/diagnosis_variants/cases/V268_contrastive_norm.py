"""SimCLR-style pairs on small vectors."""
import torch
import torch.nn.functional as F
from torch import nn


def info_nce(a, b, temperature=0.2):
    a = a / a.norm(dim=0, keepdim=True)
    b = b / b.norm(dim=0, keepdim=True)
    logits = a @ b.T / temperature
    labels = torch.arange(len(a))
    return 0.5 * (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels))


torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(30, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
for step in range(100):
    x = torch.randn(64, 30)
    loss = info_nce(encoder(x + 0.2 * torch.randn_like(x)), encoder(x + 0.2 * torch.randn_like(x)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
