import copy
import torch
from torch import nn


class Runner:
    def __init__(self, model, every=4, decay=0.98):
        self.model, self.every, self.decay = model, every, decay
        self.ema = copy.deepcopy(model).requires_grad_(False).eval()
        self.opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        self.n = 0

    def batch(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y, label_smoothing=0.1) / self.every
        loss.backward()
        self.n += 1
        if self.n % self.every == 0:
            self.opt.step()
            self.opt.zero_grad()
            with torch.no_grad():
                for e, p in zip(self.ema.parameters(), self.model.parameters()):
                    e.lerp_(p, 1 - self.decay)
                for e, b in zip(self.ema.buffers(), self.model.buffers()):
                    e.copy_(b)
        return loss.item() * self.every


torch.manual_seed(8)
run = Runner(nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4)))
w = torch.randn(12, 4)
for it in range(240):
    x = torch.randn(24, 12)
    value = run.batch(x, (x @ w).argmax(1))
    if it % 40 == 0:
        with torch.no_grad():
            acc = (run.ema(x).argmax(1) == (x @ w).argmax(1)).float().mean()
        print(it, value, acc.item())
