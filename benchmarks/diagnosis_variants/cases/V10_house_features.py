import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
area = 40 + 160 * torch.rand(800, 1)
year = 1900 + 120 * torch.rand(800, 1)
rooms = torch.randint(1, 7, (800, 1)).float()
income = 20_000 + 80_000 * torch.rand(800, 1)
features = torch.cat([area, year, rooms, income], 1)
price = 0.02 * area + 0.01 * (year - 1900) + 0.3 * rooms + income / 50_000
model = nn.Sequential(nn.Linear(4, 32), nn.Sigmoid(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(features, price), batch_size=40, shuffle=True)
for epoch in range(5):
    for inputs, goal in loader:
        loss = nn.functional.mse_loss(model(inputs), goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
