import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(62)
stem, head = nn.Linear(8, 24), nn.Linear(24, 3)
body = nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 24))
model = nn.ModuleList([stem, body, head])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
y = torch.randint(0, 3, (300,))
x = torch.randn(3, 8)[y] + 0.5 * torch.randn(300, 8)
for epoch in range(5):
    for i in torch.randperm(300).split(30):
        loss = nn.functional.cross_entropy(head(checkpoint(body, stem(x[i]), use_reentrant=True)), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
