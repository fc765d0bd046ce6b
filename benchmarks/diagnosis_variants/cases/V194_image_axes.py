import numpy as np
import torch
from torch import nn


class Plates(torch.utils.data.Dataset):
    """Pictures as a camera gives them: height, width, channels."""

    def __init__(self, n=360):
        rng = np.random.default_rng(3)
        self.labels = rng.integers(0, 3, n)
        noise = rng.normal(size=(n, 16, 12, 3)).astype(np.float32)
        tint = rng.normal(size=(3, 3)).astype(np.float32)
        self.pictures = noise + tint[self.labels][:, None, None]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.pictures[i], int(self.labels[i])


torch.manual_seed(3)
net = nn.Sequential(nn.Conv2d(3, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12 * 5 * 3, 3))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
loader = torch.utils.data.DataLoader(Plates(), batch_size=24, shuffle=True)
for epoch in range(6):
    for pictures, labels in loader:
        pictures = pictures.view(-1, 3, 16, 12)
        loss = nn.functional.cross_entropy(net(pictures), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
