import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self, depth=14):
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(depth))
        self.last = nn.Linear(32, 2)

    def forward(self, x):
        x = torch.sigmoid(self.first(x))
        for layer in self.layers:
            x = torch.sigmoid(layer(x))
        return self.last(x)


torch.manual_seed(7)
model = Deep()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
x = torch.randn(512, 16)
y = (x[:, 0] * x[:, 1] > 0).long()
for epoch in range(5):
    for i in torch.randperm(512).split(32):
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
