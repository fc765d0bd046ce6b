import math
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.inp, self.mid, self.out = nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t):
        angle = t[:, None] * torch.exp(-torch.arange(8) * math.log(1000) / 8)
        h = self.inp(x) + self.time(torch.cat([angle.sin(), angle.cos()], 1))
        return self.out(torch.nn.functional.silu(self.mid(torch.nn.functional.silu(h))))


torch.manual_seed(56)
alpha = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 200), 0)
model = Denoiser()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(100):
    angle = 6.28 * torch.rand(128)
    clean = torch.stack([angle.cos(), angle.sin()], 1)
    t = torch.randint(0, 200, (128,))
    noise = torch.randn_like(clean)
    noisy = alpha[t, None].sqrt() * clean + (1 - alpha[t, None]).sqrt() * noise
    loss = nn.functional.mse_loss(model(noisy, t.float()), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
