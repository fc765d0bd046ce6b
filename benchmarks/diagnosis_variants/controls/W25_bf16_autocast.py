import torch
from torch import nn

torch.manual_seed(74)
model = nn.Sequential(nn.Conv1d(3, 16, 5), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.LazyLinear(5))
model(torch.zeros(1, 3, 24))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
y = torch.randint(0, 5, (320,))
x = torch.randn(5, 3, 24)[y] + torch.randn(320, 3, 24)
for epoch in range(4):
    for i in torch.randperm(320).split(32):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
