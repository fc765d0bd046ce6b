"""Attention with an additive mask that is prepared by the model and again by the layer."""
import torch
from torch import nn


def extend(mask):
    """1 for tokens, 0 for padding -> 0 for tokens, a large negative number for padding."""
    return (1.0 - mask) * -10000.0


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.norm = nn.LayerNorm(width)

    def forward(self, x, mask):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / x.size(-1) ** 0.5
        scores = scores + extend(mask)[:, None]
        return self.norm(x + scores.softmax(-1) @ self.v(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 24)
        self.layers = nn.ModuleList(Layer(24) for _ in range(2))
        self.out = nn.Linear(24, 2)

    def forward(self, ids, mask):
        x = self.embed(ids)
        mask = extend(mask)
        for layer in self.layers:
            x = layer(x, mask)
        return self.out(x[:, 0])


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(80):
    length = torch.randint(2, 12, (32, 1))
    mask = (torch.arange(12) < length).float()
    ids = torch.randint(1, 20, (32, 12)) * mask.long()
    label = (ids.sum(1) > 10 * length[:, 0]).long()
    loss = nn.functional.cross_entropy(model(ids, mask), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
