import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(13)
kinds = torch.randint(0, 3, (700,))
images = torch.randn(3, 1, 6, 6)[kinds] * 1.5 + torch.randn(700, 1, 6, 6)
is_broken = torch.rand(700) < 0.2


class Photos(Dataset):
    def __init__(self):
        self.images = [each for each, bad in zip(images, is_broken) if not bad]
        self.labels = kinds.tolist()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3))
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
for epoch in range(5):
    for x, y in DataLoader(Photos(), batch_size=20, shuffle=True):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
