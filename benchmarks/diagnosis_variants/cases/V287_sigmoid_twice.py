import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 24, 5, padding=2)
        self.head = nn.Sequential(nn.Linear(24, 6), nn.Sigmoid())

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).amax(2))


torch.manual_seed(0)
model, criterion = Tagger(), nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adamax(model.parameters(), lr=5e-3)
shapes = torch.randn(6, 3, 5)
for step in range(100):
    tags = (torch.rand(32, 6) < 0.4).float()
    x = 0.3 * torch.randn(32, 3, 40)
    for k in range(6):
        x[:, :, 5 * k : 5 * k + 5] += tags[:, k, None, None] * shapes[k]
    loss = criterion(model(x), tags)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
