import torch
from torch import nn


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(7, 16), nn.Linear(7, 16)

    def forward(self, a, b):
        return torch.sigmoid((self.left(a) * self.right(b)).sum(-1))


torch.manual_seed(41)
model = Matcher()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.BCEWithLogitsLoss()
for step in range(80):
    a = torch.randn(64, 7)
    same = (torch.rand(64) < 0.5).float()
    b = torch.where(same[:, None] > 0, a, torch.randn(64, 7)) + 0.1 * torch.randn(64, 7)
    loss = criterion(model(a, b), same)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
