import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
x = torch.randn(2400, 18)
score = x[:, 0] * 1.5 + x[:, 1] - x[:, 2] * x[:, 3]
y = (score > score.quantile(0.97)).float()
loader = DataLoader(TensorDataset(x, y), batch_size=120, shuffle=True)
model = nn.Sequential(nn.Linear(18, 64), nn.ReLU(), nn.Linear(64, 1))
weight = (1 - y.mean()) / y.mean()
criterion = nn.BCEWithLogitsLoss(pos_weight=weight)
opt = torch.optim.Adam(model.parameters(), 2e-3)
for epoch in range(8):
    total = 0.0
    for xb, yb in loader:
        loss = criterion(model(xb).squeeze(1), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    with torch.no_grad():
        found = (model(x).squeeze(1) > 0)[y == 1].float().mean().item()
    print(epoch, total / len(loader), found)
