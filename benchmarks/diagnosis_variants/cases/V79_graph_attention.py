import torch
from torch import nn


class GraphAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lift = nn.Linear(width, width)
        self.left, self.right = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, nodes, edges):
        h = self.lift(nodes)
        scores = self.left(h) + self.right(h).T
        scores = scores.masked_fill(edges == 0, float("-inf"))
        return torch.softmax(scores, dim=1) @ h


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gat, self.out = GraphAttention(8), nn.Linear(8, 2)

    def forward(self, nodes, edges):
        return self.out(torch.relu(self.gat(nodes, edges)))


torch.manual_seed(6)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(50):
    nodes = torch.randn(30, 8)
    edges = (torch.rand(30, 30) < 0.25).long()
    if step == 20:
        edges[4] = 0
    loss = nn.functional.cross_entropy(net(nodes, edges), (nodes[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
