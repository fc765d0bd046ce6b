import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(505)
encoder = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 12))
opt = torch.optim.SGD(encoder.parameters(), lr=0.05, momentum=0.9)
bank = []
for step in range(150):
    x = torch.randn(32, 16)
    z = F.normalize(encoder(x + 0.1 * torch.randn_like(x)), dim=1)
    k = F.normalize(encoder(x + 0.1 * torch.randn_like(x)), dim=1)
    positive = (z * k).sum(1, keepdim=True)
    negative = z @ torch.cat(bank[-8:]).detach().t() if bank else z @ k.roll(1, 0).t()
    logits = torch.cat([positive, negative], 1) / 0.2
    loss = F.cross_entropy(logits, torch.zeros(32, dtype=torch.long))
    opt.zero_grad()
    loss.backward()
    opt.step()
    bank.append(k)
    if step % 30 == 0:
        print(step, loss.item())
