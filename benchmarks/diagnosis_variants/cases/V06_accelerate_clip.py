import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-7, momentum=0.9)
x = torch.randn(600, 8)
y = x.pow(2).sum(1, keepdim=True).log()
loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(6):
    total = 0.0
    for inputs, goal in loader:
        loss = nn.functional.huber_loss(model(inputs), goal)
        optimizer.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
    print(epoch, total / 12)
