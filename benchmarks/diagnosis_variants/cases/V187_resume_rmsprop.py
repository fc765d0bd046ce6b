import io
import torch
from torch import nn


def make():
    net = nn.Sequential(nn.Linear(10, 40), nn.Mish(), nn.Linear(40, 2))
    return net, torch.optim.Adam(net.parameters(), lr=4e-3)


def train(net, opt, start, stop):
    for step in range(start, stop):
        x = torch.randn(32, 10)
        y = (x[:, :5].sum(1) > x[:, 5:].sum(1)).long()
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(step, loss.item())


torch.manual_seed(40)
net, opt = make()
train(net, opt, 0, 60)
file = io.BytesIO()
torch.save({"step": 60, "model": net.state_dict(), "opt": opt.state_dict()}, file)
file.seek(0)
saved = torch.load(file)
net, opt = make()
net.load_state_dict(saved["model"])
train(net, opt, saved["step"], 120)
