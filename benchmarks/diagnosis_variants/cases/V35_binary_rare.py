import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(34)
fraud = (torch.rand(2400, 1) < 0.015).float()
x = torch.randn(2400, 12) + 0.3 * fraud
model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(3):
    for features, label in DataLoader(TensorDataset(x, fraud), 60, shuffle=True):
        loss = criterion(model(features), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
