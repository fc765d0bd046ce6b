"""Data-parallel training on two ranks with gradients averaged by hand."""
import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.body(x))


def average_gradients(module):
    for parameter in module.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(60):
        x = torch.randn(32, 8, generator=generator)
        loss = (net(x)[:, 0] - x.square().sum(1).sqrt()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        average_gradients(net.body)
        optimizer.step()
        if step % 20 == 0 and dist.get_rank() == 0:
            print(step, loss.item())
    dist.destroy_process_group()


main()
