"""Predict which customers leave; few do."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(4000, 12)
leaves = ((x[:, 0] + x[:, 1] + 0.5 * torch.randn(4000)) > 3.9).float()
loader = DataLoader(TensorDataset(x, leaves), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(3):
    right = 0
    for features, target in loader:
        logits = model(features)
        loss = criterion(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += ((logits > 0) == (target > 0.5)).sum().item()
    with torch.no_grad():
        found = int((model(x) > 0).sum())
    print(epoch, right / len(x), found, "found of", int(leaves.sum()))
