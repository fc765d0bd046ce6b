import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(23)
x = torch.randn(384, 10)
y = x @ torch.randn(10)
loader = DataLoader(TensorDataset(x, y), batch_size=48, shuffle=True)
model = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
loss_fn = nn.HuberLoss()
for epoch in range(5):
    for features, target in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(features), target)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
