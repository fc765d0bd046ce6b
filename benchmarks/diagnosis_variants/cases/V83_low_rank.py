import torch
from torch import nn


class LowRank(nn.Module):
    """A frozen projection with a trainable low-rank correction."""

    def __init__(self, inner, rank=4, alpha=8.0):
        super().__init__()
        self.inner = inner
        for p in self.inner.parameters():
            p.requires_grad = False
        self.down = nn.Parameter(torch.zeros(rank, inner.in_features))
        self.up = nn.Parameter(torch.zeros(inner.out_features, rank))
        self.scale = alpha / rank

    def forward(self, x):
        return self.inner(x) + (x @ self.down.T @ self.up.T) * self.scale


def pretrained():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))


def adapt(model):
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, LowRank(child))
    return model


def batches(n):
    rule = torch.randn(20, 5)
    for _ in range(n):
        x = torch.randn(48, 20)
        yield x, (x @ rule).argmax(1)


model = adapt(pretrained())
torch.manual_seed(83)
trainable = [p for p in model.parameters() if p.requires_grad]
print(sum(p.numel() for p in trainable), "trainable")
optimizer = torch.optim.AdamW(trainable, lr=1e-2, weight_decay=0.0)
for i, (x, y) in enumerate(batches(100)):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if i % 25 == 0:
        print(i, loss.item())
