"""LoRA: frozen base in eval mode, B starts at zero, only adapters in the optimizer."""
import torch
from torch import nn


class Lora(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.05)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T


torch.manual_seed(0)
model = nn.Sequential(Lora(nn.Linear(12, 48)), nn.BatchNorm1d(48), nn.ReLU(), Lora(nn.Linear(48, 4)))
model[1].requires_grad_(False)
model.eval()
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=5e-3, weight_decay=0)
w = torch.randn(12, 4)
for step in range(120):
    x = torch.randn(64, 12)
    loss = nn.functional.cross_entropy(model(x), (x @ w).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
