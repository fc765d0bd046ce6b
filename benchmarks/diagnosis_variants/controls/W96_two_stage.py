import torch
from torch import nn

torch.manual_seed(413)
body = nn.Sequential(nn.Linear(12, 48), nn.BatchNorm1d(48), nn.ReLU())
pre = nn.Linear(48, 12)
opt = torch.optim.Adam([*body.parameters(), *pre.parameters()], lr=3e-3)
for step in range(60):
    x = torch.randn(64, 12)
    loss = nn.functional.mse_loss(pre(body(x)), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
head = nn.Linear(48, 3)
body.requires_grad_(False).eval()
opt = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(400, 12)
y = (x @ torch.randn(12, 3)).argmax(1)
for epoch in range(8):
    if epoch == 4:
        body.requires_grad_(True).train()
        opt.add_param_group({"params": body.parameters(), "lr": 0.01})
    for rows in torch.randperm(400).split(40):
        loss = nn.functional.cross_entropy(head(body(x[rows])), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
