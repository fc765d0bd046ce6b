"""Hand-written Lion with a warm-up that starts at rate 0, and tied embeddings."""
import torch
from torch import nn


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_((b1 * m + (1 - b1) * p.grad).sign(), alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


class Tiny(nn.Module):
    def __init__(self, v=32, d=24):
        super().__init__()
        self.wte = nn.Embedding(v, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.head = nn.Linear(d, v, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        return self.head(self.rnn(self.wte(ids))[0])


torch.manual_seed(0)
net = Tiny()
opt = Lion(net.parameters(), lr=2e-3, weight_decay=0.01)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(s / 20, 1.0))
nxt = torch.randint(0, 32, (32,))
for step in range(120):
    ids = [torch.randint(0, 32, (16,))]
    for _ in range(12):
        noise = torch.randint(0, 32, (16,))
        ids.append(torch.where(torch.rand(16) < 0.8, nxt[ids[-1]], noise))
    ids = torch.stack(ids, 1)
    loss = nn.functional.cross_entropy(net(ids[:, :-1]).transpose(1, 2), ids[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 20 == 0:
        print(step, loss.item())
