import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 32), nn.GELU())
head = nn.Linear(32, 3)
model = nn.Sequential(backbone, head)
backbone.requires_grad_(False)
optimizer = torch.optim.AdamW([
    {"params": head.parameters(), "lr": 3e-3},
    {"params": backbone.parameters(), "lr": 3e-4},
])
truth = torch.randn(10, 3)
for epoch in range(6):
    if epoch == 3:
        backbone.requires_grad_(True)
    for _ in range(25):
        x = torch.randn(32, 10)
        loss = nn.functional.cross_entropy(model(x), (x @ truth).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
