import torch
from torch import nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


def contrast(a, b, temperature=0.1):
    similarity = (a @ b.T) / temperature
    scores = similarity.softmax(dim=-1)
    return F.cross_entropy(scores, torch.arange(len(a)))


torch.manual_seed(5)
encoder = Encoder()
optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
for step in range(100):
    x = torch.randn(32, 16)
    loss = contrast(encoder(x + 0.1 * torch.randn_like(x)), encoder(x + 0.1 * torch.randn_like(x)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
