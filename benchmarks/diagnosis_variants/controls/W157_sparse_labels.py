"""Segmentation with few positive pixels: weighted BCE plus Dice."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(80):
    x = 0.3 * torch.randn(8, 1, 16, 16)
    mask = torch.zeros_like(x)
    for i, (r, c) in enumerate(torch.randint(0, 14, (8, 2)).tolist()):
        mask[i, 0, r : r + 2, c : c + 2] = 1
    x = x + mask
    logits = net(x)
    p = logits.sigmoid()
    dice = 1 - (2 * (p * mask).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, mask, pos_weight=torch.tensor(20.0)) + dice.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
