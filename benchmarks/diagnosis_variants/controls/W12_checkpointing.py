import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(8, 32)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.1)) for _ in range(4))
        self.out = nn.Linear(32, 2)

    def forward(self, x):
        h = self.inp(x)
        for block in self.blocks:
            h = h + checkpoint(block, h, use_reentrant=False)
        return self.out(h)


torch.manual_seed(61)
model = Deep()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x = torch.randn(320, 8)
y = (x[:, 0] * x[:, 1] > 0).long()
for epoch in range(5):
    for i in torch.randperm(320).split(32):
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
