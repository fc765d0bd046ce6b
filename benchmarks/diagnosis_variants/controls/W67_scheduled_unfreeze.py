"""Fine-tuning in stages: head first, then the last block, then all, each with its own rate."""
import torch
from torch import nn


def backbone():
    return nn.ModuleDict({
        "stem": nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.ReLU()),
        "block1": nn.Sequential(nn.Linear(32, 32), nn.ReLU()),
        "block2": nn.Sequential(nn.Linear(32, 32), nn.ReLU()),
    })


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = backbone()
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        for part in self.body.values():
            x = part(x)
        return self.head(x)


torch.manual_seed(167)
rule = torch.randn(16, 3)
model = Classifier()
model.body.requires_grad_(False)
opt = torch.optim.Adam([{"params": model.head.parameters(), "lr": 1e-2}])
for epoch in range(9):
    if epoch == 3:
        model.body["block2"].requires_grad_(True)
        opt.add_param_group({"params": model.body["block2"].parameters(), "lr": 1e-3})
    if epoch == 6:
        for name in ("stem", "block1"):
            model.body[name].requires_grad_(True)
            opt.add_param_group({"params": model.body[name].parameters(), "lr": 1e-4})
    for _ in range(15):
        x = torch.randn(32, 16)
        loss = nn.functional.cross_entropy(model(x), (x @ rule).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
