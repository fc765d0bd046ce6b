"""Attend from a query to the neighbours of a node in a random graph."""
import torch
from torch import nn


class NeighbourAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x, adjacency):
        scores = self.query(x) @ self.key(x).T / x.size(-1) ** 0.5
        scores = scores.masked_fill(adjacency == 0, float("-inf"))
        return torch.softmax(scores, -1) @ self.value(x)


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(6, 24)
        self.attention = NeighbourAttention(24)
        self.read = nn.Linear(24, 1)

    def forward(self, x, adjacency):
        h = torch.tanh(self.lift(x))
        h = h + self.attention(h, adjacency)
        return self.read(h).squeeze(-1)


torch.manual_seed(4)
net = GraphNet()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(60):
    x = torch.randn(30, 6)
    adjacency = (torch.rand(30, 30) < 0.04).float()
    adjacency = ((adjacency + adjacency.T) > 0).float().fill_diagonal_(0)
    target = adjacency @ x[:, 0] / adjacency.sum(1).clamp(min=1)
    loss = nn.functional.mse_loss(net(x, adjacency), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
