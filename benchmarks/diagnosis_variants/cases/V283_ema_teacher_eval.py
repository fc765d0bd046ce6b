"""A critic with spectral norm scores the first samples before it is trained."""
import torch
from torch import nn
from torch.nn.utils import spectral_norm

torch.manual_seed(0)
critic = nn.Sequential(spectral_norm(nn.Linear(8, 48)), nn.LeakyReLU(0.2), spectral_norm(nn.Linear(48, 1)))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)


def score(x):
    critic.eval()
    with torch.no_grad():
        return critic(x).mean().item()


print("at the start", score(torch.randn(64, 8)))
for step in range(100):
    critic.train()
    real, fake = torch.randn(32, 8) + 0.5, torch.randn(32, 8)
    loss = (1 - critic(real)).relu().mean() + (1 + critic(fake)).relu().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item(), score(real))
