import torch
from torch import nn

torch.manual_seed(318)


class Dynamics(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(dim, 24), nn.Softplus(), nn.Linear(24, dim))
        self.read = nn.Linear(dim, 1)

    def forward(self, h, steps=40, dt=0.5):
        for _ in range(steps):
            h = h + dt * self.field(h)
        return self.read(h)


model = Dynamics()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
for step in range(80):
    h0 = torch.randn(32, 6)
    loss = nn.functional.mse_loss(model(h0), h0.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
