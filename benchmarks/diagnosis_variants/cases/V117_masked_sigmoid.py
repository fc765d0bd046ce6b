import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(21)


class Links(nn.Module):
    def __init__(self, nodes=60, d=16):
        super().__init__()
        self.emb = nn.Embedding(nodes, d)
        self.mix = nn.Linear(d, d)

    def score(self):
        z = self.mix(self.emb.weight)
        return torch.sigmoid(z @ z.t())


group = torch.arange(60) % 3
truth = (group[:, None] == group[None]).float()
known = torch.rand(60, 60) < 0.4
net = Links()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(80):
    given = torch.masked_select(net.score(), known)
    loss = F.binary_cross_entropy_with_logits(given, truth[known])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
