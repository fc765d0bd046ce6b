import torch
from torch import nn

torch.manual_seed(43)
embed = nn.Embedding(30, 8)
optimizer = torch.optim.SGD(embed.parameters(), lr=0.05)
for step in range(60):
    a, b = torch.randint(0, 30, (2, 32))
    gap = embed(a) - embed(b)
    distance = torch.sum(gap * gap, dim=1) ** 0.5
    near = (a % 3 == b % 3).float()
    loss = (near * distance + (1 - near) * torch.relu(2 - distance)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
