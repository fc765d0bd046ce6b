import torch
from torch import nn

torch.manual_seed(25)
x = torch.randn(500, 8)
y = (x[:, :3].sum(1) > 0).long()
net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
decay = torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 0.85**epoch)
for epoch in range(15):
    for rows in torch.randperm(500).split(20):
        loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        decay.step()
    print(epoch, loss.item(), opt.param_groups[0]["lr"])
