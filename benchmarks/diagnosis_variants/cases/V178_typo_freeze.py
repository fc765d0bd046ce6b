import torch
from torch import nn
from collections import OrderedDict


def build():
    return nn.Sequential(
        OrderedDict(
            stem=nn.Sequential(nn.Linear(24, 48), nn.GELU()),
            trunk=nn.Sequential(nn.Linear(48, 48), nn.GELU()),
            head=nn.Linear(48, 3),
        )
    )


torch.manual_seed(17)
source = build()
w = torch.randn(24, 3)
opt = torch.optim.Adam(source.parameters(), lr=2e-3)
for _ in range(60):
    x = torch.randn(64, 24)
    loss = nn.functional.cross_entropy(source(x), (x @ w).argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()

model = build()
model.load_state_dict(source.state_dict())
model.head = nn.Linear(48, 5)
frozen = [model.stem, model.trunk]
for block in frozen:
    for p in block.parameters():
        p.require_grad = False
w5 = torch.randn(24, 5)
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(120):
    x = torch.randn(64, 24)
    loss = nn.functional.cross_entropy(model(x), (x @ w5).argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
