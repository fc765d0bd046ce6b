"""Categorical VAE: softmax of Gumbel noise inside of the network, then a BCE on logits."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
enc = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4 * 6))
dec = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 16))
optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=2e-3)
patterns = (torch.rand(8, 16) > 0.5).float()
for step in range(150):
    x = patterns[torch.randint(0, 8, (64,))]
    x = torch.where(torch.rand_like(x) < 0.02, 1 - x, x)
    logits = enc(x).view(64, 4, 6)
    z = F.gumbel_softmax(logits, tau=0.7, dim=-1)
    q = F.softmax(logits, -1)
    kl = (q * (F.log_softmax(logits, -1) + torch.log(torch.tensor(6.0)))).sum((1, 2)).mean()
    rec = F.binary_cross_entropy_with_logits(dec(z.flatten(1)), x, reduction="sum") / 64
    loss = rec + 0.1 * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, rec.item(), kl.item())
