import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


def one_batch(model, batch, optimizer, scheduler):
    x, y = batch
    loss = nn.functional.l1_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    return loss.item()


torch.manual_seed(4)
x = torch.randn(960, 7)
y = (x[:, :3].prod(1, keepdim=True) + x[:, 3:4])
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(7, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
scheduler = StepLR(optimizer, step_size=4, gamma=0.3)  # every four epochs
for epoch in range(10):
    mean = sum(one_batch(model, batch, optimizer, scheduler) for batch in loader) / len(loader)
    print(epoch, mean)
