import torch
from torch import nn
import torch.nn.functional as F


class Gat(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        self.w = nn.Linear(fin, fout, bias=False)
        self.left = nn.Parameter(torch.randn(fout) * 0.1)
        self.right = nn.Parameter(torch.randn(fout) * 0.1)

    def forward(self, x, adj):
        h = self.w(x)
        score = F.leaky_relu((h @ self.left)[:, None] + (h @ self.right)[None], 0.2)
        return score.masked_fill(adj == 0, float("-inf")).softmax(1) @ h


torch.manual_seed(403)
n = 90
label = torch.arange(n) % 3
adj = ((torch.rand(n, n) < 0.02) | ((label[:, None] == label) & (torch.rand(n, n) < 0.15))).float()
adj = ((adj + adj.t() + torch.eye(n)) > 0).float()
x = F.one_hot(label, 3).float() @ torch.randn(3, 16) + 2 * torch.randn(n, 16)
known = torch.rand(n) < 0.3
g1, g2 = Gat(16, 24), Gat(24, 3)
opt = torch.optim.Adam([*g1.parameters(), *g2.parameters()], lr=5e-3, weight_decay=5e-4)
for epoch in range(100):
    out = g2(F.dropout(F.elu(g1(x, adj)), 0.5), adj)
    loss = F.cross_entropy(out[known], label[known])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 20 == 0:
        with torch.no_grad():
            right = g2(F.elu(g1(x, adj)), adj).argmax(1) == label
        print(epoch, loss.item(), right[~known].float().mean().item())
