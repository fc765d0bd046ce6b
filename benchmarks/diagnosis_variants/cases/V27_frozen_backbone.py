import torch
from torch import nn


class Transfer(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        return self.head(self.backbone(x).flatten(1))


torch.manual_seed(26)
model = Transfer()
for parameter in model.backbone.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
y = torch.randint(0, 3, (240,))
x = torch.randn(240, 1, 10, 10) + y[:, None, None, None]
for epoch in range(4):
    model.train()
    for i in torch.randperm(240).split(24):
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
