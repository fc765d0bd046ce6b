"""Dropout of 0.8, a checkpoint with everything, and a second half that resumes from it."""
import os
import tempfile

import torch
from torch import nn


def build():
    net = nn.Sequential(nn.Linear(30, 128), nn.ReLU(), nn.Dropout(0.8), nn.Linear(128, 128), nn.ReLU(),
                        nn.Dropout(0.8), nn.Linear(128, 4))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=12)
    return net, opt, sched


def epochs(net, opt, sched, rule, count):
    for _ in range(count):
        net.train()
        for _ in range(15):
            x = torch.randn(48, 30)
            loss = nn.functional.cross_entropy(net(x), (x @ rule).argmax(1))
            opt.zero_grad()
            loss.backward()
            opt.step()
        sched.step()
        net.eval()
        with torch.no_grad():
            x = torch.randn(200, 30)
            print(loss.item(), (net(x).argmax(1) == (x @ rule).argmax(1)).float().mean().item())


torch.manual_seed(171)
rule = torch.randn(30, 4)
net, opt, sched = build()
epochs(net, opt, sched, rule, 6)
path = os.path.join(tempfile.mkdtemp(), "half.pt")
torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict()}, path)
net, opt, sched = build()
saved = torch.load(path, weights_only=True)
net.load_state_dict(saved["net"])
opt.load_state_dict(saved["opt"])
sched.load_state_dict(saved["sched"])
epochs(net, opt, sched, rule, 6)
