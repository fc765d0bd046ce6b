import numpy as np
import torch
from torch import nn

torch.manual_seed(602)
rng = np.random.default_rng(602)
net = nn.Sequential(nn.Conv2d(3, 12, 3, stride=2), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 3)).to(memory_format=torch.channels_last)
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(100):
    labels = rng.integers(0, 3, 24)
    images = rng.integers(0, 90, (24, 16, 16, 3))
    for image, label in zip(images, labels):
        image[4:12, 4:12, label] += 120
    x = (torch.from_numpy(images).float() / 255 - 0.3).permute(0, 3, 1, 2)
    loss = nn.functional.cross_entropy(net(x), torch.from_numpy(labels))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
