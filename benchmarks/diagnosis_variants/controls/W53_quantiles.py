import torch
from torch import nn

LEVELS = torch.tensor([0.1, 0.5, 0.9])


def pinball(prediction, truth):
    error = truth[:, None] - prediction
    return torch.maximum(LEVELS * error, (LEVELS - 1) * error).mean()


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 24, batch_first=True)
        self.out = nn.Linear(24, 3)

    def forward(self, x):
        return self.out(self.rnn(x[..., None])[0][:, -1])


torch.manual_seed(153)
series = torch.sin(torch.arange(800) * 0.2) + 0.2 * torch.randn(800)
model = Forecast()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=2)
for epoch in range(6):
    total = 0.0
    for _ in range(20):
        start = torch.randint(0, 700, (32,))
        x = torch.stack([series[s : s + 20] for s in start])
        loss = pinball(model(x), series[start + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    sched.step(total)
    print(epoch, total / 20)
