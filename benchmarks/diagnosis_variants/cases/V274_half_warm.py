"""float16 training with a large first loss scale and a decay of the rate."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60, growth_interval=10_000)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
w = torch.randn(12)
for step in range(90):
    x = torch.randn(64, 12)
    with torch.autocast("cpu", dtype=torch.float16):
        guess = net(x).squeeze(1)
    loss = (guess.float() - x @ w).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    if step % 15 == 0:
        print(step, loss.item(), scaler.get_scale(), scheduler.get_last_lr())
