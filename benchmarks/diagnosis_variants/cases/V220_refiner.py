import torch
from torch import nn


class Refiner(nn.Module):
    def __init__(self, dim=20, use_context=False):
        super().__init__()
        self.use_context = use_context
        self.encode = nn.Linear(dim, dim)
        self.context = nn.GRU(dim, dim, batch_first=True)
        self.decode = nn.Linear(dim, 1)

    def forward(self, x):
        h = torch.tanh(self.encode(x))
        if self.use_context:
            h = self.context(h)[0]
        return self.decode(h)[..., 0]


torch.manual_seed(1)
model = Refiner()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for step in range(120):
    x = torch.randn(16, 10, 20)
    y = x[..., 0].cumsum(1) / 3
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
