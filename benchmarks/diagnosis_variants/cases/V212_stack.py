import torch
from torch import nn


def make_mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers)


torch.manual_seed(12)
x = torch.randn(900, 16)
y = (x @ torch.randn(16, 5)).argmax(1)
net = make_mlp([16, 64, 64, 5])
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
loss_function = nn.CrossEntropyLoss(label_smoothing=0.05)
for epoch in range(8):
    for idx in torch.randperm(900).split(60):
        loss = loss_function(net(x[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
