import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(14, 32), nn.Mish(), nn.Linear(32, 1))

    def forward(self, x):
        return self.body(x).squeeze(-1)

    def pair_loss(self, better, worse):
        return nn.functional.softplus(self.body(worse) - self.body(better)).mean()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(322)
    ranker = DistributedDataParallel(Ranker())
    opt = torch.optim.AdamW(ranker.parameters(), lr=3e-3)
    torch.manual_seed(1000 + dist.get_rank())
    for step in range(50):
        a, b = torch.randn(32, 14), torch.randn(32, 14)
        swap = (b.sum(1) > a.sum(1))[:, None]
        loss = ranker.module.pair_loss(torch.where(swap, b, a), torch.where(swap, a, b))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0 and dist.get_rank() == 0:
            print(step, loss.item())
    dist.destroy_process_group()


main()
