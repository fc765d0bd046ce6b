import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Stage(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.conv = nn.Conv2d(a, b, 3, padding=1)
        self.norm = nn.GroupNorm(2, b)
        self.drop = nn.Dropout2d(0.1)

    def forward(self, x):
        return self.drop(nn.functional.silu(self.norm(self.conv(x))))


class Segment(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([Stage(1, 8), Stage(8, 16)])
        self.up = nn.ModuleList([Stage(24, 8), Stage(9, 8)])
        self.final = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        skips = []
        for stage in self.down:
            skips.append(x)
            x = nn.functional.max_pool2d(checkpoint(stage, x, use_reentrant=False), 2)
        for stage, skip in zip(self.up, reversed(skips)):
            x = nn.functional.interpolate(x, scale_factor=2)
            x = checkpoint(stage, torch.cat([x, skip], 1), use_reentrant=False)
        return self.final(x)


def dice(logits, mask):
    p = logits.sigmoid()
    return 1 - (2 * (p * mask).sum() + 1) / (p.sum() + mask.sum() + 1)


torch.manual_seed(159)
net = Segment()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(60):
    mask = torch.zeros(8, 1, 16, 16)
    for i in range(8):
        r, c = torch.randint(0, 9, (2,)).tolist()
        mask[i, 0, r : r + 7, c : c + 7] = 1
    image = mask + 0.4 * torch.randn_like(mask)
    logits = net(image)
    loss = dice(logits, mask) + nn.functional.binary_cross_entropy_with_logits(logits, mask)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 15 == 0:
        print(step, loss.item())
