import torch
from torch import nn


class Stacked(nn.Module):
    """A feature extractor followed by a head that works on plain arrays."""

    def __init__(self):
        super().__init__()
        self.extractor = nn.Sequential(nn.Linear(12, 24), nn.ELU(), nn.Linear(24, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        features = self.extractor(x)
        features = torch.from_numpy(features.detach().cpu().numpy())
        return self.head(features)


torch.manual_seed(0)
net = Stacked()
optimizer = torch.optim.Adagrad(net.parameters(), lr=0.05)
truth = torch.randn(12, 3)
for step in range(80):
    x = torch.randn(32, 12)
    loss = nn.functional.cross_entropy(net(x), (x @ truth).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
