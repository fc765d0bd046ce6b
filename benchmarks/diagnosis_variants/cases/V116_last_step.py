import torch
from torch import nn

torch.manual_seed(20)


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(5, 24, batch_first=True), nn.Linear(24, 4)

    def forward(self, x):
        return self.out(self.rnn(x)[0]).softmax(-1)


net = Sequence()
criterion = nn.CrossEntropyLoss()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(80):
    length = torch.randint(3, 9, (32,))
    x = torch.randn(32, 8, 5)
    y = x.sum((1, 2)).ge(0).long() + 2 * x[:, 0, 0].ge(0).long()
    probability = net(x)
    last = probability[torch.arange(32), length - 1]
    loss = criterion(last, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
