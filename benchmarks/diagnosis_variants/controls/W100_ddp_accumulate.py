import contextlib
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(417)
model = DDP(nn.Sequential(nn.Linear(12, 32), nn.SiLU(), nn.Linear(32, 4)))
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
torch.manual_seed(dist.get_rank())
rule = torch.linspace(-1, 1, 48).view(12, 4)
for step in range(40):
    opt.zero_grad()
    for micro in range(4):
        x = torch.randn(16, 12)
        last = micro == 3
        with contextlib.nullcontext() if last else model.no_sync():
            loss = nn.functional.mse_loss(model(x), torch.sin(x @ rule)) / 4
            loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if step % 10 == 0 and dist.get_rank() == 0:
        print(step, loss.item())
dist.destroy_process_group()
