import torch
from torch import nn


class Pool(nn.Module):
    """Attention over time, which is the first dimension."""

    def __init__(self, dim):
        super().__init__()
        self.score = nn.Linear(dim, 1)

    def forward(self, h):
        return (torch.softmax(self.score(h), 0) * h).sum(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(5, 24)
        self.pool = Pool(24)
        self.out = nn.Linear(24, 3)

    def forward(self, x):
        return self.out(self.pool(self.rnn(x)[0]))


torch.manual_seed(0)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(120):
    x = torch.randn(12, 12, 5)  # time, batch, features
    y = x[:, :, 0].sum(0).gt(0).long() + x[:, :, 1].sum(0).gt(2).long()
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
