import torch
from torch import nn
import torch.nn.functional as F


class Quantiser(nn.Module):
    def __init__(self, codes=24, dim=8, decay=0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("book", torch.randn(codes, dim))
        self.register_buffer("count", torch.ones(codes))
        self.register_buffer("total", self.book.clone())

    def forward(self, z):
        index = torch.cdist(z.detach(), self.book).argmin(1)
        q = self.book[index]
        if self.training:
            with torch.no_grad():
                hot = F.one_hot(index, len(self.book)).float()
                self.count.lerp_(hot.sum(0), 1 - self.decay)
                self.total.lerp_(hot.t() @ z, 1 - self.decay)
                self.book.copy_(self.total / self.count.clamp(min=1e-3)[:, None])
        return z + (q - z).detach(), F.mse_loss(z, q.detach())


torch.manual_seed(406)
enc = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 8))
dec = nn.Sequential(nn.Linear(8, 40), nn.ReLU(), nn.Linear(40, 20))
vq = Quantiser()
opt = torch.optim.AdamW([*enc.parameters(), *dec.parameters()], lr=2e-3)
centres = torch.randn(12, 20)
for step in range(150):
    x = centres[torch.randint(0, 12, (96,))] + 0.1 * torch.randn(96, 20)
    q, commit = vq(enc(x))
    loss = F.mse_loss(dec(q), x) + 0.25 * commit
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
