"""Semi-supervised node labels on one fixed graph: the same inputs in every step."""
import torch
from torch import nn


class GraphConv(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(a, b))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adjacency):
        return torch.sparse.mm(adjacency, x @ self.weight)


class GCN(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.first = GraphConv(features, hidden)
        self.second = GraphConv(hidden, classes)

    def forward(self, x, adjacency):
        h = torch.relu(self.first(nn.functional.dropout(x, 0.5, self.training), adjacency))
        return self.second(nn.functional.dropout(h, 0.5, self.training), adjacency)


torch.manual_seed(170)
n = 90
label = torch.arange(n) % 3
link = (torch.rand(n, n) < torch.where(label[:, None] == label[None], 0.2, 0.02)).float()
link = ((link + link.T + torch.eye(n)) > 0).float()
adjacency = (link / link.sum(1, keepdim=True)).to_sparse()
x = torch.eye(n)
known = torch.zeros(n, dtype=torch.bool)
known[:30] = True
model = GCN(n, 16, 3)
opt = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
for epoch in range(150):
    model.train()
    loss = nn.functional.cross_entropy(model(x, adjacency)[known], label[known])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 50 == 49:
        model.eval()
        with torch.no_grad():
            guess = model(x, adjacency).argmax(1)
        print(epoch, loss.item(), (guess == label)[~known].float().mean().item())
