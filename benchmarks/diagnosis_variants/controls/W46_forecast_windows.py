import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, series):
        self.series = series

    def __len__(self):
        return len(self.series) - 12

    def __getitem__(self, start):
        return self.series[start:start + 12], self.series[start + 12]


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(1, 24, batch_first=True), nn.Linear(24, 1)

    def forward(self, x):
        return self.out(self.rnn(x[..., None])[0][:, -1]).squeeze(1)


torch.manual_seed(0)
series = torch.sin(torch.arange(500) * 0.2) + 0.05 * torch.randn(500)
net = Forecaster()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
for epoch in range(4):
    net.train()
    for x, y in DataLoader(Windows(series[:400]), batch_size=32, shuffle=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        x, y = next(iter(DataLoader(Windows(series[400:]), batch_size=88)))
        schedule.step(nn.functional.mse_loss(net(x), y))
print(schedule.get_last_lr())
