import torch
from torch import nn


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 16))
        self.decoder = nn.Linear(16, 6)

    def encode(self, x):
        return torch.tensor(self.encoder(x).tolist())

    def forward(self, x):
        return self.decoder(self.encode(x))


torch.manual_seed(42)
y = torch.randint(0, 6, (360,))
x = torch.randn(6, 12)[y] + 0.5 * torch.randn(360, 12)
model = Captioner()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(4):
    for i in torch.randperm(360).split(36):
        loss = nn.functional.cross_entropy(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
