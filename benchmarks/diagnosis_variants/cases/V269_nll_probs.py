"""Classify graphs by a sum over nodes; the network ends in a Softmax layer."""
import torch
from torch import nn


class GraphClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Linear(4, 32)
        self.update = nn.Linear(32, 32)
        self.out = nn.Sequential(nn.Linear(32, 3), nn.Softmax(dim=1))

    def forward(self, x, a):
        h = torch.relu(a @ self.message(x))
        h = torch.relu(a @ self.update(h))
        return self.out(h.mean(1))


torch.manual_seed(0)
model = GraphClassifier()
criterion = nn.NLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(100):
    y = torch.randint(0, 3, (32,))
    a = (torch.rand(32, 8, 8) < (0.2 + 0.25 * y)[:, None, None]).float()
    loss = criterion(model(torch.ones(32, 8, 4), a / 8), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
