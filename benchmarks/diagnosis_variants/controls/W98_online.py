import torch
from torch import nn

torch.manual_seed(415)
model = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD(model.parameters(), lr=5e-3)
shown = 0.0
for t in range(400):
    x = torch.randn(6) + torch.tensor([0.0, 0, 0, 0, 0, t / 400])
    y = x[0] - x[1] * x[2]
    loss = (model(x[None]).squeeze() - y) ** 2
    opt.zero_grad()
    loss.backward()
    opt.step()
    shown += loss.item()
    if t % 100 == 99:
        print(t, shown / 100)
        shown = 0.0
