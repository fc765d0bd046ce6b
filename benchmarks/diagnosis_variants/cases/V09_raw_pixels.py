import torch
from torch import nn

torch.manual_seed(8)
labels = torch.randint(0, 4, (320,))
images = torch.zeros(320, 3, 16, 16)
for n, label in enumerate(labels):
    top, left = 8 * (int(label) // 2), 8 * (int(label) % 2)
    images[n, :, top:top + 8, left:left + 8] = 255.0 * torch.rand(3, 8, 8)
model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.Tanh(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(256, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(4):
    for i in torch.randperm(320).split(32):
        loss = nn.functional.cross_entropy(model(images[i]), labels[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
