import torch
from torch import nn
import torch.nn.functional as F


class Quantizer(nn.Module):
    """Codes follow a moving average; the encoder gets the gradient straight through."""

    def __init__(self, codes=16, dim=8):
        super().__init__()
        self.register_buffer("codes", torch.randn(codes, dim))
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", self.codes.clone())

    def forward(self, z):
        index = torch.cdist(z, self.codes).argmin(1)
        q = self.codes[index]
        if self.training:
            hot = F.one_hot(index, len(self.codes)).float()
            self.counts.lerp_(hot.sum(0), 0.05)
            self.sums.lerp_(hot.T @ z.detach(), 0.05)
            self.codes.copy_(self.sums / self.counts.clamp_min(1e-3)[:, None])
        commit = F.mse_loss(z, q.detach())
        return z + (q - z).detach(), commit


torch.manual_seed(0)
enc = nn.Sequential(nn.Linear(20, 32), nn.SiLU(), nn.Linear(32, 8))
vq = Quantizer()
dec = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 20))
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=2e-3)
centres = torch.randn(6, 20)
for step in range(200):
    x = centres[torch.randint(0, 6, (64,))] + 0.2 * torch.randn(64, 20)
    q, commit = vq(enc(x))
    loss = F.mse_loss(dec(q), x) + 0.25 * commit
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 0:
        print(step, loss.item())
