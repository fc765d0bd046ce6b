import torch
from torch import nn

torch.manual_seed(37)
encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
decoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=2e-3)
basis = torch.randn(4, 16)
for step in range(100):
    x = torch.randn(32, 4) @ basis
    features = encoder(x).data
    loss = nn.functional.mse_loss(decoder(features), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(step, loss.item())
