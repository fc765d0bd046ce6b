import copy
import torch
from torch import nn
import torch.nn.functional as F


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 16))
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, a, b):
        return F.normalize(self.tower(a), dim=1) @ F.normalize(self.tower(b), dim=1).t() * self.scale.exp()


torch.manual_seed(416)
model, best, best_loss = Siamese(), None, float("inf")
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(6):
    model.train()
    for _ in range(20):
        a = torch.randn(64, 20)
        scores = model(a, a + 0.5 * torch.randn_like(a))
        loss = F.cross_entropy(scores, torch.arange(64), label_smoothing=0.05)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        a = torch.randn(128, 20)
        val = F.cross_entropy(model(a, a + 0.5 * torch.randn_like(a)), torch.arange(128)).item()
    if val < best_loss:
        best, best_loss = copy.deepcopy(model.state_dict()), val
    print(epoch, val)
model.load_state_dict(best)
