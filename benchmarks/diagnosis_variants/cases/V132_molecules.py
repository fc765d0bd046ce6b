import torch
import torch.nn as nn
import torch.nn.functional as F


def random_graph():
    n = int(torch.randint(4, 10, ()))
    label = int(torch.randint(0, 2, ()))
    x = torch.randn(n, 8) + (0.8 if label else -0.8)
    a = (torch.rand(n, n) < 0.4).float()
    return x, ((a + a.t()) > 0).float() + torch.eye(n), label


def batch_of(size):
    graphs = [random_graph() for _ in range(size)]
    return torch.cat([g[0] for g in graphs]), torch.block_diag(*[g[1] for g in graphs]), torch.tensor([g[2] for g in graphs])


class MoleculeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Linear(8, 32)
        self.c2 = nn.Linear(32, 32)
        self.readout = nn.Linear(32, 2)

    def forward(self, x, adj):
        adj = adj / adj.sum(1, keepdim=True)
        h = F.elu(self.c1(adj @ x))
        h = F.elu(self.c2(adj @ h))
        return self.readout(h.mean(0, keepdim=True))


torch.manual_seed(302)
net = MoleculeNet()
opt = torch.optim.Adam(net.parameters(), 3e-3)
for step in range(150):
    x, adj, y = batch_of(24)
    logits = net(x, adj)
    loss = F.cross_entropy(logits.expand(len(y), -1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, round(loss.item(), 4))
