import torch
from torch import nn

torch.manual_seed(7)


class WaveNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(2, 16, 5, padding=2), nn.GELU(), nn.Conv1d(16, 16, 5, padding=2), nn.GELU()
        )
        self.head = nn.Conv1d(16, classes, 1)

    def forward(self, x):
        return self.head(self.body(x))


class Criterion(nn.Module):
    def forward(self, logits, labels):
        n, c, t = logits.shape
        logits = logits.contiguous().view(n * t, c)
        return nn.functional.cross_entropy(logits, labels.view(-1))


net, criterion = WaveNet(), Criterion()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(80):
    labels = torch.randint(0, 4, (12, 10)).repeat_interleave(5, 1)
    x = torch.stack([labels.float() - 1.5, (labels % 2).float()], 1) + 0.2 * torch.randn(12, 2, 50)
    loss = criterion(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
