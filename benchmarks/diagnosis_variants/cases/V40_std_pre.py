import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def standardise(batch):
    return (batch - batch.mean(dim=0)) / torch.std(batch, dim=0)


torch.manual_seed(39)
x = torch.rand(193, 5) * torch.tensor([1.0, 10.0, 100.0, 5.0, 2.0])
y = x[:, :1] + x[:, 1:2] / 10
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    for features, goal in DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True):
        loss = nn.functional.mse_loss(model(standardise(features)), goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
