import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12 * 36, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=3.0, momentum=0.9, nesterov=True)
for step in range(120):
    y = torch.randint(0, 4, (32,))
    x = torch.randn(32, 1, 8, 8)
    x[:, :, :4] += (y // 2 - 0.5)[:, None, None, None]
    x[:, :, 4:] += (y % 2 - 0.5)[:, None, None, None]
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
