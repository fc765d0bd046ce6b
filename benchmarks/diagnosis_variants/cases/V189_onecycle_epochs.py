import torch
from torch import nn

torch.manual_seed(50)
EPOCHS, PER = 15, 20
w = torch.randn(18, 4)
net = nn.Sequential(nn.Linear(18, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[5, 10, 13], gamma=0.1)
for epoch in range(EPOCHS):
    net.train()
    running = 0.0
    for _ in range(PER):
        x = torch.randn(32, 18)
        y = (x @ w).argmax(1)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        running += loss.item() / PER
    print(f"epoch {epoch} loss {running:.3f} lr {sched.get_last_lr()[0]:.1e}")
