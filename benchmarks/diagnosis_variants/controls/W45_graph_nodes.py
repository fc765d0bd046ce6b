import torch
from torch import nn


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(12, 16), nn.Linear(16, 3)

    def forward(self, x, a):
        h = torch.dropout(torch.relu(a @ self.one(x)), 0.5, self.training)
        return a @ self.two(h)


torch.manual_seed(0)
labels = torch.randint(0, 3, (120,))
x = torch.randn(120, 12) + nn.functional.one_hot(labels, 3).repeat(1, 4).float()
a = ((labels[:, None] == labels) & (torch.rand(120, 120) < 0.1)).float() + torch.eye(120)
a = a / a.sum(1, keepdim=True)
train = torch.rand(120) < 0.5
net = GCN()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-4)
for epoch in range(80):
    net.train()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x, a)[train], labels[train])
    loss.backward()
    optimizer.step()
    if epoch % 10 == 0:
        net.eval()
        with torch.no_grad():
            print(epoch, (net(x, a)[~train].argmax(1) == labels[~train]).float().mean().item())
