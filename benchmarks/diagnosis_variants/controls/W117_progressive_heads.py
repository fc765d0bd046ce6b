"""Lightning-like module; the second head joins after some epochs, the first is then frozen."""
import torch
from torch import nn


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(15, 40), nn.LayerNorm(40), nn.GELU())
        self.coarse, self.fine = nn.Linear(40, 2), nn.Linear(40, 6)
        self.stage = "coarse"

    def configure_optimizers(self):
        o = torch.optim.AdamW(self.parameters(), lr=2e-3)
        return o, torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=12)

    def training_step(self, x, y):
        h = self.encoder(x)
        if self.stage == "coarse":
            return nn.functional.cross_entropy(self.coarse(h), y // 3)
        return nn.functional.cross_entropy(self.fine(h), y)

    def on_epoch(self, epoch):
        if epoch == 4:
            self.stage = "fine"
            self.coarse.requires_grad_(False)


torch.manual_seed(11)
m = Module()
opt, sched = m.configure_optimizers()
w = torch.randn(15, 6)
for epoch in range(12):
    m.on_epoch(epoch)
    for _ in range(12):
        x = torch.randn(32, 15)
        loss = m.training_step(x, (x @ w).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
    sched.step()
    print(epoch, m.stage, loss.item())
