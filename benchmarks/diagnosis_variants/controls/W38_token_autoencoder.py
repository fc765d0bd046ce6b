import torch
from torch import nn
import torch.nn.functional as F


class Autoencoder(nn.Module):
    """Writes a sequence into one vector and reads it back: the target is the input."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 24)
        self.enc = nn.GRU(24, 48, batch_first=True)
        self.dec = nn.GRU(48, 48, batch_first=True)
        self.out = nn.Linear(48, 20)

    def forward(self, ids):
        code = self.enc(self.emb(ids))[1][0]
        return self.out(self.dec(code[:, None].expand(-1, ids.shape[1], -1))[0])


torch.manual_seed(0)
net = Autoencoder()
optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
for step in range(120):
    ids = torch.randint(0, 20, (32, 5))
    loss = F.cross_entropy(net(ids).transpose(1, 2), ids)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
