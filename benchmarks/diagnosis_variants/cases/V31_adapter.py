import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 20)
        self.adapter = nn.Sequential(nn.Linear(20, 4), nn.ReLU(), nn.Linear(4, 20))
        self.head = nn.Linear(20, 2)
        self.use_adapter = False

    def forward(self, x):
        h = torch.relu(self.body(x))
        if self.use_adapter:
            h = h + self.adapter(h)
        return self.head(h)


torch.manual_seed(30)
model = Adapted()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(320, 8)
y = (x[:, 0] > x[:, 1]).long()
for epoch in range(4):
    for i in torch.randperm(320).split(32):
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
