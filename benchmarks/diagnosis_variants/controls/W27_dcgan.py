import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.ConvTranspose2d(8, 16, 4), nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh())
D = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 1, 4))
opt_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for step in range(60):
    D.zero_grad()
    real = torch.tanh(torch.randn(16, 1, 8, 8).cumsum(2) * 0.3)
    criterion(D(real).flatten(), torch.full((16,), 0.9)).backward()
    fake = G(torch.randn(16, 8, 1, 1))
    criterion(D(fake.detach()).flatten(), torch.zeros(16)).backward()
    opt_d.step()
    G.zero_grad()
    criterion(D(fake).flatten(), torch.ones(16)).backward()
    opt_g.step()
print("done")
