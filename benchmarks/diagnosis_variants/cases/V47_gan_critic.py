import torch
from torch import nn

torch.manual_seed(1)
generator = nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()

for step in range(120):
    real = torch.randn(64, 2) * 0.5 + torch.tensor([2.0, -1.0])
    fake = generator(torch.randn(64, 8))
    loss_d = bce(critic(real), torch.ones(64, 1)) + bce(critic(fake.detach()), torch.zeros(64, 1))
    loss_d.backward()
    opt_d.step()

    opt_g.zero_grad()
    loss_g = bce(critic(fake), torch.ones(64, 1))
    loss_g.backward()
    opt_g.step()
    if step % 40 == 0:
        print(step, round(loss_d.item(), 4), round(loss_g.item(), 4))
