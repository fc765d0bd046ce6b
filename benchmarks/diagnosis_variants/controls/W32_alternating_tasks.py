import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(9, 32), nn.ReLU())
        self.age = nn.Linear(32, 1)
        self.kind = nn.Linear(32, 4)
        self.rare = nn.Linear(32, 2)

    def forward(self, x, task):
        return getattr(self, task)(self.trunk(x))


torch.manual_seed(0)
net = MultiTask()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(150):
    x = torch.randn(32, 9)
    if step % 15 == 14:
        loss = nn.functional.cross_entropy(net(x, "rare"), (x[:, 3] > 0).long())
    elif step % 2:
        loss = nn.functional.cross_entropy(net(x, "kind"), x[:, :4].argmax(1))
    else:
        loss = nn.functional.mse_loss(net(x, "age").squeeze(1), x[:, 5])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
