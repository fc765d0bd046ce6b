import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
encoder.eval()
probe = nn.Linear(32, 4)
optimizer = torch.optim.SGD(probe.parameters(), lr=0.5, momentum=0.9)
patterns = torch.randn(4, 1, 8, 8) * 2
for step in range(100):
    y = torch.randint(0, 4, (32,))
    with torch.no_grad():
        features = encoder(patterns[y] + 0.3 * torch.randn(32, 1, 8, 8))
    loss = nn.functional.cross_entropy(probe(features), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
