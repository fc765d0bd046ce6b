import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

torch.manual_seed(604)
net = nn.Sequential(nn.Linear(15, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
plateau = ReduceLROnPlateau(opt, factor=0.3, patience=1)
x = torch.randn(640, 15)
y = (x[:, :5] * x[:, 5:10]).sum(1, keepdim=True)
for epoch in range(12):
    net.train()
    for rows in torch.randperm(512).split(32):
        loss = nn.functional.mse_loss(net(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.inference_mode():
        val = nn.functional.mse_loss(net(x[512:]), y[512:]).item()
    plateau.step(val)
    print(epoch, val, opt.param_groups[0]["lr"])
