import torch
from torch import nn


class MoE(nn.Module):
    def __init__(self, dim=16, experts=6):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, dim)) for _ in range(experts))
        self.out = nn.Linear(dim, 4)

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(1)
        y = torch.zeros_like(x)
        for n, expert in enumerate(self.experts):
            rows = (chosen == n).any(1)
            if rows.any():
                share = (weights * (chosen == n)).sum(1)[rows, None]
                y[rows] += share * expert(x[rows])
        return self.out(x + y)


torch.manual_seed(53)
y = torch.randint(0, 4, (400,))
x = torch.randn(4, 16)[y] + 0.3 * torch.randn(400, 16)
model = MoE()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for epoch in range(5):
    for i in torch.randperm(400).split(10):
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
