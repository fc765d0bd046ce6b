import torch
from torch import nn


class Progressive(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(6, 32)])
        self.out = nn.Linear(32, 1)

    def grow(self):
        self.blocks.append(nn.Linear(32, 32))
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(block(x))
        return self.out(x)


torch.manual_seed(0)
model = Progressive()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for stage in range(3):
    for step in range(30):
        x = torch.randn(32, 6)
        loss = nn.functional.mse_loss(model(x).squeeze(1), x[:, 0] * x[:, 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(stage, loss.item())
    model.grow()
