"""Denoising of 1-d signals with a small U-Net."""
import torch
from torch import nn


def double(a, b):
    return nn.Sequential(nn.Conv1d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.Mish())


class UNet(nn.Module):
    def __init__(self, widths=(8, 16, 32)):
        super().__init__()
        self.stem = nn.Conv1d(1, widths[0], 1)
        self.encoders = tuple(double(a, b) for a, b in zip(widths[:-1], widths[1:]))
        self.decoders = tuple(double(a + b, a) for a, b in zip(widths[:-1], widths[1:]))
        self.head = nn.Conv1d(widths[0], 1, 1)

    def forward(self, x):
        x = self.stem(x)
        skips = []
        for encoder in self.encoders:
            skips.append(x)
            x = nn.functional.avg_pool1d(encoder(x), 2)
        for decoder, skip in zip(reversed(self.decoders), reversed(skips)):
            x = nn.functional.interpolate(x, scale_factor=2)
            x = decoder(torch.cat([skip, x], 1))
        return self.head(x)


def noisy(count):
    t = torch.linspace(0, 1, 32)
    clean = torch.sin(6.28 * t * torch.randint(1, 4, (count, 1, 1)))
    level = torch.rand(count, 1, 1)
    return clean + level * torch.randn_like(clean), clean


torch.manual_seed(89)
net = UNet()
print(sum(p.numel() for p in net.parameters()), "parameters")
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(120):
    x, clean = noisy(16)
    loss = nn.functional.smooth_l1_loss(net(x), clean)
    loss.backward()
    opt.step()
    opt.zero_grad()
    if step % 40 == 0:
        print(step, loss.item())
