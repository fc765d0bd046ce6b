import torch
from torch import nn

torch.manual_seed(4)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.score, self.box = nn.Linear(8, 1), nn.Linear(8, 4)

    def forward(self, images):
        features = self.backbone(images)
        return self.score(features).squeeze(1), self.box(features)


net = Detector()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(60):
    images = torch.rand(4, 1, 12, 12)
    has_object = torch.rand(4) < 0.35
    boxes = torch.rand(4, 4)
    score, box = net(images)
    score_loss = nn.functional.binary_cross_entropy_with_logits(score, has_object.float())
    error = (box - boxes).abs().sum(1)
    box_loss = error[has_object].mean()
    loss = score_loss + box_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
