import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 16, 3, padding=1)
        self.fc = nn.Linear(16, 2)

    def forward(self, x):
        h = F.relu(self.conv(x))
        h = F.dropout1d(h, p=0.4)
        return self.fc(h.mean(-1))


torch.manual_seed(25)
y = torch.randint(0, 2, (300,))
x = torch.randn(300, 4, 20) + y[:, None, None]
model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(3):
    model.train()
    for i in torch.randperm(240).split(24):
        loss = F.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.inference_mode():
        print(epoch, (model(x[240:]).argmax(1) == y[240:]).float().mean().item())
