import torch
from torch import nn
import torch.nn.functional as F


def tower(width):
    return nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Linear(48, 16))


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.query_tower = tower(20)
        self.doc_tower = tower(20)
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, query, doc):
        q = F.normalize(self.query_tower(query), dim=1)
        d = F.normalize(self.query_tower(doc), dim=1)
        return q @ d.t() * self.log_scale.exp()


torch.manual_seed(315)
rotate = torch.randn(20, 20) / 20**0.5
model = TwoTowers()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(150):
    query = torch.randn(64, 20)
    doc = query @ rotate + 0.05 * torch.randn(64, 20)
    scores = model(query, doc)
    same = torch.arange(64)
    loss = (F.cross_entropy(scores, same) + F.cross_entropy(scores.t(), same)) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
