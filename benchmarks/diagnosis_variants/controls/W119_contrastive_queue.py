import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


torch.manual_seed(13)
q_net, k_net = Encoder(), Encoder()
k_net.load_state_dict(q_net.state_dict())
for p in k_net.parameters():
    p.requires_grad = False
queue = F.normalize(torch.randn(128, 16), dim=1)
opt = torch.optim.SGD(q_net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
for step in range(120):
    x = torch.randn(32, 20)
    q = q_net(x + 0.2 * torch.randn_like(x))
    with torch.no_grad():
        for pq, pk in zip(q_net.parameters(), k_net.parameters()):
            pk.mul_(0.99).add_(pq, alpha=0.01)
        k = k_net(x + 0.2 * torch.randn_like(x))
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.t()], 1) / 0.2
    loss = F.cross_entropy(logits, torch.zeros(32, dtype=torch.long))
    opt.zero_grad()
    loss.backward()
    opt.step()
    queue = torch.cat([k, queue])[:128]
    if step % 30 == 0:
        print(step, loss.item())
