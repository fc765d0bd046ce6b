"""Fine-tune a head on top of a pretrained, frozen backbone."""
import torch
from torch import nn


def make_backbone():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )


class Classifier(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(32, classes)

    def forward(self, x):
        with torch.no_grad():
            features = self.backbone(x)
        return self.head(features)


def pretrain(backbone):
    probe = nn.Linear(32, 3)
    optimizer = torch.optim.Adam([*backbone.parameters(), *probe.parameters()], lr=1e-3)
    for _ in range(30):
        y = torch.randint(0, 3, (32,))
        x = torch.randn(32, 3, 16, 16) + y[:, None, None, None] * 0.5
        loss = nn.functional.cross_entropy(probe(backbone(x)), y)
        optimizer.zero_grad(); loss.backward(); optimizer.step()


def finetune(backbone):
    for parameter in backbone.parameters():
        parameter.requires_grad = False
    model = Classifier(backbone, 4)
    optimizer = torch.optim.Adam(model.head.parameters(), lr=1e-2)
    for epoch in range(5):
        model.train()
        for _ in range(12):
            y = torch.randint(0, 4, (16,))
            x = 2 * torch.randn(16, 3, 16, 16) + 3 + y[:, None, None, None]
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        print(epoch, loss.item())


torch.manual_seed(0)
backbone = make_backbone()
pretrain(backbone)
finetune(backbone)
