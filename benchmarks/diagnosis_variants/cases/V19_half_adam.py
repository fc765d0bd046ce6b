import torch
from torch import nn

torch.manual_seed(18)
model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 2)).half()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x = torch.randn(512, 12)
y = (x.sum(1) > 0).long()
for epoch in range(3):
    for i in torch.randperm(512).split(64):
        logits = model(x[i].half())
        loss = nn.functional.cross_entropy(logits.float(), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
