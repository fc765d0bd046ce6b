"""Two towers; the image tower is frozen and stays in eval mode."""
import torch
from torch import nn
from torch.nn import functional as F


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 16))
        self.text = nn.Sequential(nn.EmbeddingBag(30, 24), nn.Linear(24, 16))
        self.log_scale = nn.Parameter(torch.tensor(2.0))
        self.image.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.image.eval()
        return self

    def forward(self, images, words):
        a = F.normalize(self.image(images), dim=-1)
        b = F.normalize(self.text(words), dim=-1)
        return self.log_scale.exp() * a @ b.T


torch.manual_seed(152)
model = Towers().train()
opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
codes = torch.randn(30, 1, 8, 8)
for step in range(100):
    words = torch.randint(0, 30, (16, 3))
    images = codes[words].mean(1) + 0.05 * torch.randn(16, 1, 8, 8)
    logits = model(images, words)
    labels = torch.arange(16)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(step, loss.item())
