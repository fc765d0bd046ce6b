import torch
from torch import nn


class MessagePassing(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * width + 1, width), nn.SiLU(), nn.Linear(width, width))
        self.move = nn.Linear(width, 1)
        self.node = nn.Linear(2 * width, width)

    def forward(self, h, pos):
        n = h.shape[1]
        rel = pos[:, :, None] - pos[:, None]
        dist = rel.square().sum(-1, keepdim=True).sqrt()
        pair = torch.cat([h[:, :, None].expand(-1, -1, n, -1), h[:, None].expand(-1, n, -1, -1), dist], -1)
        message = self.edge(pair)
        pos = pos + (rel * torch.tanh(self.move(message))).mean(2)
        return h + self.node(torch.cat([h, message.sum(2)], -1)), pos


class Energy(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.species = nn.Embedding(4, width)
        self.layers = nn.ModuleList([MessagePassing(width) for _ in range(2)])
        self.readout = nn.Linear(width, 1)

    def forward(self, kinds, pos):
        h = self.species(kinds)
        for layer in self.layers:
            h, pos = layer(h, pos)
        return self.readout(h).sum((1, 2))


def molecules(count):
    kinds = torch.randint(0, 4, (count, 6))
    pos = torch.randn(count, 6, 3)
    return kinds, pos, (kinds.float().mean(1) + pos.var(dim=(1, 2)))


torch.manual_seed(81)
model = Energy()
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
losses = []
for iteration in range(60):
    kinds, pos, energy = molecules(16)
    loss = nn.functional.l1_loss(model(kinds, pos), energy)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    losses.append(float(loss))
print("last losses", losses[-3:])
