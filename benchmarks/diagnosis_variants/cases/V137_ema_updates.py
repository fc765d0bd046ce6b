import copy
import torch
from torch import nn


class Average(nn.Module):
    def __init__(self, model, decay=0.999):
        super().__init__()
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay
        self.register_buffer("num_updates", torch.tensor(0.0))

    @torch.no_grad()
    def update(self, model):
        self.num_updates += 1
        n = self.num_updates.item()
        decay = min(self.decay, (1 + n) / (10 + n))
        for mine, theirs in zip(self.shadow.parameters(), model.parameters()):
            mine.lerp_(theirs, 1 - decay)


torch.manual_seed(307)
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
average = Average(model).to(torch.bfloat16)
average.shadow.float()
opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for step in range(420):
    x = torch.randn(64, 6)
    y = (x[:, :3] * x[:, 3:]).sum(1, keepdim=True)
    loss = nn.functional.smooth_l1_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    average.update(model)
    if step % 100 == 0:
        print(step, loss.item(), average.num_updates.item())
