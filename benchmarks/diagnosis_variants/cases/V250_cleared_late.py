"""A learner that keeps its backward pass and its update in different methods."""
import torch
from torch import nn


class Learner:
    def __init__(self, net, rate):
        self.net = net
        self.optimizer = torch.optim.ASGD(net.parameters(), lr=rate)

    def observe(self, x, y):
        loss = nn.functional.mse_loss(self.net(x), y)
        loss.backward()
        return loss.item()

    def optimise(self):
        for parameter in self.net.parameters():
            parameter.grad = None
        self.optimizer.step()


torch.manual_seed(0)
learner = Learner(nn.Sequential(nn.Linear(4, 32), nn.Softplus(), nn.Linear(32, 1)), 0.01)
for step in range(100):
    x = torch.randn(32, 4)
    loss = learner.observe(x, x.prod(1, keepdim=True))
    learner.optimise()
    if step % 20 == 0:
        print(step, loss)
