import torch
from torch import nn

torch.manual_seed(33)
y = (torch.rand(3000) < 0.02).long()
x = torch.randn(3000, 10) + 0.4 * y[:, None]
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(3):
    for i in torch.randperm(3000).split(100):
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    guess = model(x).argmax(1)
    print(epoch, loss.item(), (guess == y).float().mean().item())
