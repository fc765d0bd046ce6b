"""Self-supervised learning in the manner of BYOL on toy signals."""
import torch
import torch.nn.functional as F
from torch import nn


class Branch(nn.Module):
    def __init__(self, encoder, width=32):
        super().__init__()
        self.encoder = encoder
        self.projector = nn.Sequential(nn.Linear(width, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x):
        return self.projector(self.encoder(x))


class Byol(nn.Module):
    def __init__(self, encoder, decay=0.99):
        super().__init__()
        self.decay = decay
        self.online = Branch(encoder)
        self.target = Branch(encoder)
        self.target.load_state_dict(self.online.state_dict())
        self.target.requires_grad_(False)
        self.online.requires_grad_(True)
        self.predictor = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, first, second):
        guess = F.normalize(self.predictor(self.online(first)), dim=-1)
        with torch.no_grad():
            wanted = F.normalize(self.target(second), dim=-1)
        return 2 - 2 * (guess * wanted).sum(-1).mean()

    @torch.no_grad()
    def update(self):
        for slow, fast in zip(self.target.parameters(), self.online.parameters()):
            slow.lerp_(fast, 1 - self.decay)


torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 32))
byol = Byol(encoder)
optimizer = torch.optim.AdamW([p for p in byol.parameters() if p.requires_grad], lr=1e-3)
for step in range(150):
    clean = torch.randn(64, 24).cumsum(1)
    loss = byol(clean + 0.1 * torch.randn_like(clean), clean * (1 + 0.1 * torch.randn(64, 1)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    byol.update()
    if step % 30 == 0:
        print(step, loss.item())
