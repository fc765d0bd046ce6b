import numpy as np
import torch
from torch import nn


def to_batch(frames):
    pixels = torch.from_numpy(np.stack(frames)).float() / 255 - 0.5
    n, h, w, c = pixels.shape
    return pixels.view(n, c, h, w)


def picture(label, rng):
    image = rng.integers(0, 90, (16, 16, 3))
    image[4:12, 4:12, label] += 120
    return image.astype(np.uint8)


torch.manual_seed(511)
rng = np.random.default_rng(511)
net = nn.Sequential(nn.Conv2d(3, 12, 3, stride=2), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 3))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(100):
    labels = rng.integers(0, 3, 24)
    x = to_batch([picture(k, rng) for k in labels])
    loss = nn.functional.cross_entropy(net(x), torch.from_numpy(labels))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
