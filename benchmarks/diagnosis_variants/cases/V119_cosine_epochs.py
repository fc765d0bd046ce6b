import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(24)
EPOCHS = 12
x = torch.randn(320, 6)
data = DataLoader(TensorDataset(x, x.prod(1, keepdim=True)), batch_size=16, shuffle=True)
net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
plan = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS)
for epoch in range(EPOCHS):
    for bx, by in data:
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(bx), by)
        loss.backward()
        opt.step()
        plan.step()
    print(epoch, loss.item())
