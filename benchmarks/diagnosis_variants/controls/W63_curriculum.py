import torch
from torch import nn


class Adder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 32, batch_first=True)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[1][-1])[:, 0]


def problems(length, n=32):
    values = torch.rand(n, length)
    marks = torch.zeros(n, length)
    for i in range(n):
        marks[i, torch.randperm(length)[:2]] = 1
    return torch.stack([values, marks], -1), (values * marks).sum(1)


torch.manual_seed(163)
net = Adder()
opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
for level, length in enumerate((2, 4, 8, 16)):
    for step in range(40):
        x, y = problems(length)
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 0.5)
        opt.step()
    print(level, length, loss.item())
