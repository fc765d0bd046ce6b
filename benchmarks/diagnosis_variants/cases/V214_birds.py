import torch
from torch import nn


class Birds(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.backbone(x).flatten(1))

    def freeze(self):
        for p in self.backbone.parameters():
            p.requires_grad_(False)


torch.manual_seed(2)
images, labels = torch.rand(300, 3, 12, 12) * 3 + 1, torch.randint(0, 4, (300,))
images[:, 0] += labels[:, None, None] * 0.3
model = Birds()
model.freeze()
opt = torch.optim.AdamW(model.head.parameters(), lr=5e-3)
for epoch in range(5):
    model.train()
    for i in torch.randperm(300).split(30):
        loss = nn.functional.cross_entropy(model(images[i]), labels[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print(epoch, (model(images).argmax(1) == labels).float().mean().item())
