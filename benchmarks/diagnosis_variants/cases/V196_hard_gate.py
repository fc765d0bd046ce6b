import torch
from torch import nn
import torch.nn.functional as F


class FeatureSelector(nn.Module):
    """Chooses which sensors a sample needs."""

    def __init__(self, sensors):
        super().__init__()
        self.scorer = nn.Sequential(nn.Linear(sensors, 24), nn.GELU(), nn.Linear(24, sensors))

    def forward(self, x):
        p = torch.sigmoid(self.scorer(x))
        return (p > 0.5).float()


class Gated(nn.Module):
    def __init__(self, sensors, classes):
        super().__init__()
        self.selector = FeatureSelector(sensors)
        self.classifier = nn.Sequential(nn.Linear(sensors, 48), nn.GELU(), nn.Linear(48, classes))

    def forward(self, x):
        keep = self.selector(x)
        return self.classifier(x * keep), keep


if __name__ == "__main__":
    torch.manual_seed(11)
    sensors = torch.randn(640, 20)
    target = (sensors[:, :5].sum(1) > 0).long() + (sensors[:, 5] > 1).long()
    net = Gated(20, 3)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for it in range(150):
        pick = torch.randint(0, 640, (64,))
        logits, keep = net(sensors[pick])
        loss = F.cross_entropy(logits, target[pick]) + 0.01 * keep.mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if it % 25 == 0:
            print(f"{it:4d}  loss {loss.item():.4f}  kept {keep.mean().item():.2f}")
