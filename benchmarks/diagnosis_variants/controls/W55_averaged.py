import copy

import torch
from torch import nn


class Ema:
    def __init__(self, model, decay=0.98):
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for a, b in zip(self.shadow.parameters(), model.parameters()):
            a.mul_(self.decay).add_(b, alpha=1 - self.decay)
        for a, b in zip(self.shadow.buffers(), model.buffers()):
            a.copy_(b)


torch.manual_seed(155)
x = torch.randn(512, 10)
y = (x[:, 0] * x[:, 1] > 0).long()
train, held = slice(0, 400), slice(400, 512)
net = nn.Sequential(nn.Linear(10, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.5), nn.Linear(48, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
ema, best, best_state = Ema(net), 0.0, None
for epoch in range(10):
    net.train()
    for index in torch.randperm(400).split(40):
        loss = nn.functional.cross_entropy(net(x[train][index]), y[train][index])
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update(net)
    with torch.no_grad():
        score = (ema.shadow(x[held]).argmax(1) == y[held]).float().mean().item()
    if score >= best:
        best, best_state = score, copy.deepcopy(ema.shadow.state_dict())
    print(epoch, loss.item(), score)
net.load_state_dict(best_state)
