"""An Elman cell written by hand that integrates a long sequence."""
import torch
from torch import nn


class ElmanCell(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.w_ih = nn.Parameter(torch.randn(hidden, inputs) * 0.3)
        self.w_hh = nn.Parameter(torch.randn(hidden, hidden) * 0.45)
        self.bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, x, h):
        return torch.relu(x @ self.w_ih.T + h @ self.w_hh.T + self.bias)


class Integrator(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = ElmanCell(2, 24)
        self.read = nn.Linear(24, 1)

    def forward(self, xs):
        h = xs.new_zeros(xs.size(0), 24)
        for t in range(xs.size(1)):
            h = self.cell(xs[:, t], h)
        return self.read(h).squeeze(-1)


torch.manual_seed(5)
model = Integrator()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(60):
    xs = torch.randn(32, 60, 2)
    target = xs[..., 0].sum(1) / 60
    loss = (model(xs) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item())
