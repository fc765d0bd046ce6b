import torch
from torch import nn

torch.manual_seed(311)
STEPS = 60


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 32)
        self.ff = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 7))

    def forward(self, t):
        return self.ff(self.emb(t))


tagger = Tagger()
opt = torch.optim.SGD(tagger.parameters(), lr=0.5, momentum=0.9)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: max(0.0, 1 - s / STEPS))
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**52)
for s in range(STEPS):
    words = torch.randint(0, 50, (20, 12))
    with torch.autocast("cpu", torch.float16):
        out = tagger(words)
        loss = nn.functional.cross_entropy(out.flatten(0, 1), (words % 7).flatten())
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(tagger.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
    sched.step()
    if s % 10 == 0:
        print(s, loss.item(), sched.get_last_lr())
