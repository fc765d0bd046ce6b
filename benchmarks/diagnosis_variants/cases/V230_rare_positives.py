"""A small one-stage detector: class for each cell, and a box where there is an object."""
import torch
import torch.nn.functional as F
from torch import nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.score = nn.Conv2d(32, 1, 1)
        self.box = nn.Conv2d(32, 2, 1)

    def forward(self, x):
        features = self.body(x)
        return self.score(features)[:, 0], self.box(features).permute(0, 2, 3, 1)


def scene(n, generator):
    image = 0.1 * torch.randn(n, 1, 16, 16, generator=generator)
    cells = torch.zeros(n, 4, 4)
    boxes = torch.zeros(n, 4, 4, 2)
    for i in range(n):
        if torch.rand((), generator=generator) < 0.35:
            r, c = torch.randint(0, 4, (2,), generator=generator).tolist()
            image[i, 0, 4 * r : 4 * r + 3, 4 * c : 4 * c + 3] += 1
            cells[i, r, c] = 1
            boxes[i, r, c] = torch.tensor([0.75, 0.75])
    return image, cells, boxes


def losses(model, image, cells, boxes):
    scores, found = model(image)
    positive = cells > 0
    objectness = F.binary_cross_entropy_with_logits(scores, cells)
    box_loss = F.l1_loss(found[positive], boxes[positive])
    return objectness, box_loss


generator = torch.Generator().manual_seed(0)
torch.manual_seed(0)
model = Detector()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
for step in range(80):
    objectness, box = losses(model, *scene(6, generator))
    loss = objectness + 0.5 * box
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, objectness.item(), box.item())
