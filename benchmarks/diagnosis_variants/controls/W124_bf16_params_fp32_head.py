"""bfloat16 autocast with clipping, a learned temperature and an unbalanced, weighted loss."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(1, 8, 5), nn.GroupNorm(2, 8), nn.Hardswish(), nn.Conv1d(8, 8, 5), nn.AdaptiveMaxPool1d(1), nn.Flatten())
        self.head = nn.Linear(8, 1)
        self.temperature = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.head(self.body(x)).float().squeeze(1) * self.temperature.exp()


torch.manual_seed(18)
net = Net()
opt = torch.optim.NAdam(net.parameters(), lr=3e-3)
loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(9.0))
for step in range(150):
    y = (torch.rand(48) < 0.1).float()
    x = 0.3 * torch.randn(48, 1, 40)
    x[:, 0, 15:20] += y[:, None] * 1.5
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(x)
    loss = loss_fn(logits, y)
    opt.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    if step % 30 == 0:
        print(step, loss.item(), norm.item())
