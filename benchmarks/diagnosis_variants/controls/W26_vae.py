import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mu, self.logvar = nn.Linear(20, 32), nn.Linear(32, 4), nn.Linear(32, 4)
        self.dec = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 20))

    def forward(self, x):
        h = torch.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        return self.dec(mu + torch.randn_like(mu) * (0.5 * logvar).exp()), mu, logvar


torch.manual_seed(75)
x = (torch.randn(500, 4) @ torch.randn(4, 20)).sigmoid()
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(6):
    for i in torch.randperm(500).split(50):
        out, mu, logvar = model(x[i])
        rec = nn.functional.binary_cross_entropy_with_logits(out, x[i], reduction="sum")
        kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum()
        optimizer.zero_grad()
        ((rec + kl) / len(i)).backward()
        optimizer.step()
