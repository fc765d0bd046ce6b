import copy
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(29)


class Byol(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16))
        self.predict = nn.Linear(16, 16)
        self.target = copy.copy(self.online)

    def forward(self, one, two):
        with torch.no_grad():
            goal = F.normalize(self.target(two), dim=1)
        return 2 - 2 * (F.normalize(self.predict(self.online(one)), dim=1) * goal).sum(1).mean()

    @torch.no_grad()
    def follow(self, tau=0.99):
        for slow, fast in zip(self.target.parameters(), self.online.parameters()):
            slow.data.mul_(tau).add_(fast.data, alpha=1 - tau)


net = Byol()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for step in range(80):
    x = torch.randn(64, 10)
    loss = net(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.follow()
    if step % 20 == 0:
        print(step, loss.item())
