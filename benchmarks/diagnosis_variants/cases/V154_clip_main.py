import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def is_main():
    return dist.get_rank() == 0


def train_step(model, opt, x, y, log):
    opt.zero_grad(set_to_none=True)
    loss = nn.functional.huber_loss(model(x), y)
    loss.backward()
    if log and is_main():
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        print(f"loss {loss.item():.4f} norm {norm.item():.4f}")
    opt.step()


dist.init_process_group("gloo")
torch.manual_seed(324)
model = DDP(nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4)))
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
torch.manual_seed(dist.get_rank())
rule = torch.linspace(-1, 1, 48).view(12, 4)
for step in range(60):
    x = torch.randn(24, 12)
    train_step(model, opt, x, x @ rule, log=step % 5 == 0)
dist.destroy_process_group()
