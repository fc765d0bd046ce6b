import torch
from torch import nn

torch.manual_seed(409)
model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 4)).to(torch.bfloat16)
master = [p.detach().float().clone() for p in model.parameters()]
for m in master:
    m.requires_grad_(True)
opt = torch.optim.AdamW(master, lr=1e-3)
rule = torch.randn(16, 4)
for step in range(150):
    x = torch.randn(64, 16)
    y = (x @ rule).argmax(1)
    loss = nn.functional.cross_entropy(model(x.bfloat16()).float(), y)
    model.zero_grad()
    loss.backward()
    for m, p in zip(master, model.parameters()):
        m.grad = p.grad.float()
    opt.step()
    with torch.no_grad():
        for m, p in zip(master, model.parameters()):
            p.copy_(m)
    if step % 30 == 0:
        print(step, loss.item())
