import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Churn(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.a = nn.Linear(features, 64)
        self.b = nn.Linear(64, 32)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        x = nn.Dropout(0.4)(torch.relu(self.a(x)))
        x = nn.Dropout(0.4)(torch.relu(self.b(x)))
        return self.out(x).squeeze(-1)


torch.manual_seed(11)
x = torch.randn(1200, 20)
y = ((x[:, 0] * 2 + x[:, 3] - x[:, 7]) > 0).float()
train, val = random_split(TensorDataset(x, y), [1000, 200])
net = Churn(20)
opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for epoch in range(6):
    net.train()
    for xb, yb in DataLoader(train, batch_size=50, shuffle=True):
        opt.zero_grad()
        bce(net(xb), yb).backward()
        opt.step()
    net.eval()
    hits = 0
    with torch.no_grad():
        for xb, yb in DataLoader(val, batch_size=50):
            hits += ((net(xb) > 0) == (yb > 0.5)).sum().item()
    print(epoch, hits / 200)
