import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 32), nn.SiLU())
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        h = self.body(x)
        return h, self.head(h)


dist.init_process_group("gloo")
torch.manual_seed(608)
model = DDP(Net())
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
torch.manual_seed(dist.get_rank())
rule = torch.linspace(-1, 1, 48).view(12, 4)
for step in range(40):
    x = torch.randn(32, 12)
    h, out = model(x)
    noisy = model.module.head(h + 0.1 * torch.randn_like(h))
    loss = nn.functional.mse_loss(out, torch.sin(x @ rule)) + 0.1 * nn.functional.mse_loss(noisy, out.detach())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0 and dist.get_rank() == 0:
        print(step, loss.item())
dist.destroy_process_group()
