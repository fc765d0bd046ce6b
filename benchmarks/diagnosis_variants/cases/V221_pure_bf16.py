import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(24, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 6)).to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(640, 24)
y = (x[:, :6] + 0.5 * x[:, 6:12]).argmax(1)
for epoch in range(8):
    for idx in torch.randperm(640).split(64):
        logits = model(x[idx].bfloat16())
        loss = nn.functional.cross_entropy(logits.float(), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
