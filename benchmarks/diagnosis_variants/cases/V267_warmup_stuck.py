"""Warm-up followed by a constant rate; the warm-up is counted in steps."""
import torch
from torch import nn

WARMUP = 200_000
BASE = 1e-3


def factor(step):
    return min(1.0, (step + 1) / WARMUP)


torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
model = nn.ModuleDict({"embed": nn.Embedding(40, 32), "body": layer, "out": nn.Linear(32, 2)})
optimizer = torch.optim.Adam(model.parameters(), lr=BASE)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
for step in range(120):
    ids = torch.randint(0, 40, (32, 9))
    label = (ids[:, 0] > 20).long()
    logits = model["out"](model["body"](model["embed"](ids))[:, 0])
    loss = nn.functional.cross_entropy(logits, label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 30 == 0:
        print(step, loss.item())
