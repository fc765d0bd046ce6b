import torch
from torch import nn


class LoRA(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.02)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.a.t() @ self.b.t()


torch.manual_seed(57)
model = nn.Sequential(nn.Linear(12, 48), nn.GELU(), nn.Linear(48, 3))
model[0], model[2] = LoRA(model[0]), LoRA(model[2])
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
y = torch.randint(0, 3, (300,))
x = torch.randn(3, 12)[y] + torch.randn(300, 12)
for epoch in range(6):
    for i in torch.randperm(300).split(30):
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
