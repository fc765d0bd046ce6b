import torch
from torch import nn


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(4, 64)
        self.drop = nn.Dropout(0.7)
        self.out = nn.Linear(64, 1)

    def forward(self, x):
        h = torch.relu(self.lift(x)) * 9000
        return self.out((self.drop(h) / 9000))


torch.manual_seed(0)
model = Energy().half()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(60):
    x = 2 * torch.randn(64, 4)
    loss = nn.functional.mse_loss(model(x.half()).float(), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
