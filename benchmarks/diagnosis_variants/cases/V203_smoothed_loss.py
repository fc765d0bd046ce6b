import torch
from torch import nn


class Smoother:
    def __init__(self, beta=0.98):
        self.beta, self.value = beta, None

    def update(self, loss):
        self.value = loss if self.value is None else self.beta * self.value + (1 - self.beta) * loss
        return self.value


torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(10, 40), nn.Mish(), nn.Linear(40, 40), nn.Mish(), nn.Linear(40, 2))
opt = torch.optim.NAdam(policy.parameters(), lr=2e-3)
smooth = Smoother()
target = torch.randn(10, 2)
for step in range(150):
    obs = torch.randn(48, 10)
    loss = nn.functional.huber_loss(policy(obs), torch.tanh(obs @ target))
    shown = smooth.update(loss)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, float(shown))
