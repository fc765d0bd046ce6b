import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

torch.manual_seed(2)
net = nn.Sequential(
    weight_norm(nn.Conv1d(1, 16, 3, padding=1)), nn.GELU(),
    weight_norm(nn.Conv1d(16, 16, 3, padding=2, dilation=2)), nn.GELU(),
    nn.Conv1d(16, 1, 1),
)
epochs, per_epoch = 5, 30
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 5e-3, total_steps=epochs * per_epoch)
t = torch.arange(3000) * 0.1
clean = torch.sin(t) * torch.cos(0.2 * t)
for epoch in range(epochs):
    for _ in range(per_epoch):
        start = torch.randint(0, 2900, (16,))
        w = torch.stack([clean[s : s + 64] for s in start])[:, None]
        loss = nn.functional.l1_loss(net(w + 0.3 * torch.randn_like(w)), w)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        schedule.step()
    print(epoch, loss.item(), schedule.get_last_lr()[0])
