import torch
from torch import nn

torch.manual_seed(414)


class Masked(nn.Module):
    def __init__(self, d=32, n=16, patch=8):
        super().__init__()
        self.inp = nn.Linear(patch, d)
        self.pos = nn.Parameter(torch.randn(n, d) * 0.02)
        self.hole = nn.Parameter(torch.zeros(d))
        make = lambda: nn.TransformerEncoderLayer(d, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.enc, self.dec = make(), make()
        self.out = nn.Linear(d, patch)

    def forward(self, x, keep=4):
        order = torch.rand(x.shape[:2]).argsort(1)
        shown = order[:, :keep, None]
        h = self.inp(x) + self.pos
        seen = self.enc(h.gather(1, shown.expand(-1, -1, h.shape[-1])))
        full = (self.hole + self.pos).expand_as(h).scatter(1, shown.expand_as(seen), seen)
        hidden = order[:, keep:, None].expand(-1, -1, x.shape[-1])
        return (self.out(self.dec(full)).gather(1, hidden) - x.gather(1, hidden)).square().mean()


net = Masked()
opt = torch.optim.AdamW(net.parameters(), lr=1.5e-3, betas=(0.9, 0.95), weight_decay=0.05)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 1.5e-3, total_steps=120)
for step in range(120):
    x = torch.sin(torch.linspace(0, 20, 128) * (0.5 + torch.rand(32, 1)) + 6 * torch.rand(32, 1)).view(32, 16, 8)
    loss = net(x)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 30 == 0:
        print(step, loss.item())
