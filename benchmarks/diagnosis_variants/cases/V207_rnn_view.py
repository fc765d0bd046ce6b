import torch
from torch import nn


class GestureLSTM(nn.Module):
    def __init__(self, features=9, hidden=20, steps=12, classes=4):
        super().__init__()
        self.rnn = nn.LSTM(features, hidden, num_layers=2)
        self.fc = nn.Linear(hidden * steps, classes)

    def forward(self, x):
        batch = x.size(0)
        out, _ = self.rnn(x.transpose(0, 1))
        out = out.contiguous().view(batch, -1)
        return self.fc(out)


def make_data(n):
    y = torch.randint(0, 4, (n,))
    phase = torch.linspace(0, 6, 12)[None, :, None] * (y[:, None, None] + 1)
    return torch.sin(phase + torch.rand(n, 1, 9)) + 0.2 * torch.randn(n, 12, 9), y


torch.manual_seed(21)
x, y = make_data(600)
net = GestureLSTM()
optimizer = torch.optim.Adam(net.parameters(), 3e-3)
lossfn = nn.CrossEntropyLoss()
for epoch in range(8):
    perm = torch.randperm(600)
    for i in range(0, 600, 30):
        optimizer.zero_grad()
        loss = lossfn(net(x[perm[i : i + 30]]), y[perm[i : i + 30]])
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    print(f"[{epoch}] {loss.item():.3f}")
