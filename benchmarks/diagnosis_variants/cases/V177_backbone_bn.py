import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 16, 3, padding=1, stride=2), nn.BatchNorm2d(16)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(x))).mean((2, 3))


class Finetuner(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone, self.head = backbone, nn.Linear(16, classes)
        self.backbone.requires_grad_(False)

    def training_step(self, batch):
        x, y = batch
        return nn.functional.cross_entropy(self.head(self.backbone(x)), y)

    def configure_optimizers(self):
        return torch.optim.Adagrad(self.head.parameters(), lr=0.05)


def fit(module, batches, epochs):
    opt = module.configure_optimizers()
    for epoch in range(epochs):
        module.train()
        for batch in batches:
            opt.zero_grad()
            loss = module.training_step(batch)
            loss.backward()
            opt.step()
        print(epoch, loss.item())


torch.manual_seed(12)
backbone = Backbone()
centres = torch.randn(4, 3, 1, 1)
labels = torch.randint(0, 4, (320,))
images = centres[labels] * 1.5 + torch.randn(320, 3, 12, 12) + 2.0
fit(Finetuner(backbone, 4), [(images[i : i + 32], labels[i : i + 32]) for i in range(0, 320, 32)], 8)
