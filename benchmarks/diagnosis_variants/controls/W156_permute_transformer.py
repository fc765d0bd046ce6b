"""Time-major Transformer: views are right, positions are mixed by a Mixer on purpose."""
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 16)
        self.tokens = nn.Sequential(nn.Linear(10, 20), nn.GELU(), nn.Linear(20, 10))
        self.channels = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.n1, self.n2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.out = nn.Linear(160, 3)

    def forward(self, x):
        x = self.embed(x)
        x = x + self.tokens(self.n1(x).mT).mT
        x = x + self.channels(self.n2(x))
        return self.out(x.reshape(x.size(0), -1))


torch.manual_seed(0)
net = Mixer()
optimizer = torch.optim.RAdam(net.parameters(), lr=3e-3)
for step in range(120):
    y = torch.randint(0, 3, (48,))
    x = torch.randn(48, 10, 4)
    x[torch.arange(48), 2 + 3 * y] += 1.5
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
