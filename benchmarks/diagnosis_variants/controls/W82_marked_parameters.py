"""Parameters with attributes of the program's own, and a part that is frozen properly."""
import torch
from torch import nn

torch.manual_seed(36)
net = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 32), nn.Linear(32, 2))
for p in net.parameters():
    p.no_decay = p.dim() < 2
    p.is_expert = False
    p.grad_scale = 1.0
net[3].requires_grad_(False)
net[0].trainable = True
groups = [
    {"params": [p for p in net.parameters() if p.no_decay], "weight_decay": 0.0},
    {"params": [p for p in net.parameters() if not p.no_decay], "weight_decay": 0.01},
]
opt = torch.optim.AdamW(groups, lr=2e-3)
for step in range(80):
    x = torch.randn(32, 8)
    loss = nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long())
    opt.zero_grad(set_to_none=False)
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
