import torch
from torch import nn


def init_weights(module):
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


def train_epoch(net, optimizer, x, y):
    net.apply(init_weights)
    for part in torch.randperm(len(x)).split(40):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(net(x[part]).squeeze(1), y[part])
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(0)
x = torch.randn(400, 6)
y = (x.prod(1) > 0).float()
net = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(8):
    print(epoch, train_epoch(net, optimizer, x, y))
