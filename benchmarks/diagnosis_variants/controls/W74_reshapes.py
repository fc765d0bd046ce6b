"""Reshapes that are right: permuted first, pixels to channels, heads, groups, a batch of 16 with
four heads of 16, and a loss over several questions per sample."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(10)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.attend = nn.MultiheadAttention(64, 4)
        self.inner = nn.MultiheadAttention(64, 4, batch_first=True)
        self.map = nn.Conv2d(32, 3, 1)
        self.quiz = nn.Linear(64, 3 * 4)

    def forward(self, x):
        h = F.relu(self.conv(x))
        b, c, hh, ww = h.shape
        small = h.view(b, c, hh // 2, 2, ww // 2, 2).permute(0, 1, 3, 5, 2, 4)
        small = small.reshape(b, c * 4, hh // 2, ww // 2)
        tokens = small.flatten(2).transpose(1, 2).reshape(b, -1, 64)
        mixed = self.attend(*[tokens.transpose(0, 1)] * 3)[0].transpose(0, 1)
        mixed = mixed + self.inner(mixed, mixed, mixed)[0]
        g = small.view(b, 4, 8, -1).transpose(1, 2).reshape(b, 32, 4, 4)
        return self.map(g), self.quiz(mixed[:, :3])


net = Mixed()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(60):
    labels = torch.randint(0, 3, (16, 4, 4))
    image = F.interpolate(labels[:, None].float(), scale_factor=2) + 0.1 * torch.randn(16, 1, 8, 8)
    maps, quiz = net(image)
    loss = F.cross_entropy(maps.permute(0, 2, 3, 1).reshape(-1, 3), labels.reshape(-1))
    answers = (labels.flatten(1)[:, :12] > 0).long()
    loss = loss + F.cross_entropy(quiz.reshape(-1, 3), answers.reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
