import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 32), nn.SiLU())
        self.head = nn.Linear(32, 1000)

    def forward(self, x):
        return self.head(self.trunk(x))


torch.manual_seed(4)
accelerator = Accelerator(cpu=True)
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.head = nn.Linear(32, 3)
y = torch.randint(0, 3, (480,))
x = torch.randn(3, 10)[y] + torch.randn(480, 10)
loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        accelerator.backward(loss)
        optimizer.step()
    print(epoch, loss.item())
