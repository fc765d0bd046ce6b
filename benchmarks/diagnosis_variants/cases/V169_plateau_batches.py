import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

torch.manual_seed(513)
net = nn.Sequential(nn.Linear(15, 64), nn.ReLU(), nn.Linear(64, 1))
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
plateau = ReduceLROnPlateau(opt, factor=0.5, patience=2)
x = torch.randn(640, 15)
y = (x[:, :5] * x[:, 5:10]).sum(1, keepdim=True)
for epoch in range(10):
    for rows in torch.randperm(640).split(32):
        loss = nn.functional.mse_loss(net(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        plateau.step(loss.item())
    print(epoch, loss.item(), opt.param_groups[0]["lr"])
