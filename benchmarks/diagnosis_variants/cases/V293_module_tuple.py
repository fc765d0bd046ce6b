import torch
from torch import nn


class Moe(nn.Module):
    def __init__(self, experts=3):
        super().__init__()
        self.gate = nn.Linear(7, experts)
        self.branches = tuple(nn.Sequential(nn.Linear(7, 24), nn.SiLU(), nn.Linear(24, 2)) for _ in range(experts))

    def forward(self, x):
        weight = self.gate(x).softmax(-1)
        return sum(weight[:, i : i + 1] * branch(x) for i, branch in enumerate(self.branches))


torch.manual_seed(0)
model = Moe()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(80):
    x = torch.randn(48, 7)
    loss = nn.functional.mse_loss(model(x), torch.stack([x[:, 0] * x[:, 1], x[:, 2].abs()], 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
