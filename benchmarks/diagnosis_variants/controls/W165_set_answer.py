import torch
from torch import nn


class DeepSets(nn.Module):
    def __init__(self):
        super().__init__()
        self.phi, self.rho = nn.Linear(3, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.rho(torch.tanh(self.phi(x)).mean(1))


torch.manual_seed(0)
net = DeepSets()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(100):
    x = torch.randn(32, 9, 3)
    loss = nn.functional.mse_loss(net(x).squeeze(1), x.mean((1, 2)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
