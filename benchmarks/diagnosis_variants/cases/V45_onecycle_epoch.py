import torch
from torch import nn

torch.manual_seed(44)
x = torch.randn(640, 10)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[5, 8, 12, 15], gamma=0.1)
for epoch in range(20):
    for i in torch.randperm(640).split(64):
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    if epoch % 5 == 0:
        print(epoch, loss.item())
