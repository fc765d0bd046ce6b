"""A small adversarial pair on a ring of Gaussians."""
import math

import torch
import torch.nn.functional as F
from torch import nn, optim

LATENT = 6


def ring(count):
    angle = torch.randint(0, 8, (count,)) * (2 * math.pi / 8)
    centre = torch.stack([angle.cos(), angle.sin()], dim=1)
    return centre + 0.05 * torch.randn(count, 2)


def perceptron(*widths):
    layers = []
    for a, b in zip(widths[:-2], widths[1:-1]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


class Game:
    def __init__(self):
        self.painter = perceptron(LATENT, 48, 48, 2)
        self.critic = perceptron(2, 48, 48, 1)
        self.painter_opt = optim.Adam(self.painter.parameters(), lr=1e-3, betas=(0.5, 0.99))
        self.critic_opt = optim.Adam(self.critic.parameters(), lr=1e-3, betas=(0.5, 0.99))

    def play(self, real):
        fake = self.painter(torch.randn(len(real), LATENT))
        judge = F.softplus(self.critic(fake.detach())).mean() + F.softplus(-self.critic(real)).mean()
        self.painter_opt.zero_grad()
        judge.backward()
        self.critic_opt.step()
        fool = F.softplus(-self.critic(fake)).mean()
        self.painter_opt.zero_grad()
        fool.backward()
        self.painter_opt.step()
        return judge.item(), fool.item()


if __name__ == "__main__":
    torch.manual_seed(80)
    game = Game()
    for turn in range(150):
        judge, fool = game.play(ring(64))
        if turn % 30 == 0:
            print(f"turn {turn}: critic {judge:.3f} painter {fool:.3f}")
