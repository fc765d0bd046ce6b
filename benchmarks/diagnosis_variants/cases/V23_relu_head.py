import torch
from torch import nn


def block(a, b):
    return nn.Sequential(nn.Linear(a, b), nn.ReLU())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(block(14, 40), block(40, 40))
        self.head = block(40, 5)

    def forward(self, x):
        return self.head(self.features(x))


torch.manual_seed(22)
y = torch.randint(0, 5, (500,))
x = torch.randn(5, 14)[y] + torch.randn(500, 14)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
for epoch in range(5):
    for i in torch.randperm(500).split(25):
        loss = criterion(net(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    print(epoch, loss.item())
