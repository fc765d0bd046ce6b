import torch
from torch import nn


class Auto(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(12, 6)
        self.decoder = nn.Linear(6, 12)
        with torch.no_grad():
            for layer in (self.encoder, self.decoder):
                layer.weight.fill_(0.05)
                layer.bias.fill_(0.0)

    def forward(self, x):
        return self.decoder(torch.tanh(self.encoder(x)))


torch.manual_seed(24)
model = Auto()
x = torch.randn(500, 4) @ torch.randn(4, 12)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(6):
    for i in torch.randperm(500).split(50):
        loss = nn.functional.mse_loss(model(x[i]), x[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
