"""A small vision Transformer with hand-written attention on time-major features."""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q = q.reshape(b, self.heads, t, c // self.heads)
        k = k.reshape(b, self.heads, t, c // self.heads)
        v = v.reshape(b, self.heads, t, c // self.heads)
        weights = torch.softmax(q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, c))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(1, 32, 4, stride=4)
        self.position = nn.Parameter(torch.randn(1, 16, 32) * 0.02)
        self.norm = nn.LayerNorm(32)
        self.attention = Attention(32, 4)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.position
        x = x + self.attention(self.norm(x))
        return self.head(x.mean(1))


torch.manual_seed(0)
model = Vit()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(80):
    y = torch.randint(0, 4, (32,))
    x = 0.3 * torch.randn(32, 1, 16, 16)
    for i, label in enumerate(y.tolist()):
        r, c = 8 * (label // 2), 8 * (label % 2)
        x[i, :, r : r + 8, c : c + 8] += 0.5
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
