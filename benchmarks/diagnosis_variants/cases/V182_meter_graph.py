import torch
from torch import nn


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, value, n=1):
        self.sum = self.sum + value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


torch.manual_seed(0)
conv = nn.Sequential(nn.Conv1d(2, 8, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(32, 1))
opt = torch.optim.Adamax(conv.parameters(), lr=2e-3)
meter = AverageMeter()
for step in range(120):
    x = torch.randn(16, 2, 40)
    y = x[:, 0].amax(1, keepdim=True) - x[:, 1].amax(1, keepdim=True)
    loss = nn.functional.huber_loss(conv(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    meter.update(loss, len(x))
    if step % 20 == 0:
        print(step, float(meter.avg))
