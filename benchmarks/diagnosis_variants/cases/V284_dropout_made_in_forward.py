import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate
        self.one, self.two = nn.Linear(12, 40), nn.Linear(40, 1)

    def forward(self, x):
        return self.two(nn.Dropout(self.rate)(torch.tanh(self.one(x))))


torch.manual_seed(0)
head = Head(0.4)
optimizer = torch.optim.AdamW(head.parameters(), lr=2e-3)
held = torch.randn(100, 12)
for epoch in range(6):
    head.train()
    for _ in range(20):
        x = torch.randn(40, 12)
        loss = nn.functional.huber_loss(head(x).squeeze(1), x[:, 0] + x[:, 1] ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    head.eval()
    with torch.no_grad():
        print(epoch, nn.functional.huber_loss(head(held).squeeze(1), held[:, 0] + held[:, 1] ** 2).item())
