import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

torch.manual_seed(102)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.ff(self.norm(x))


class Regressor(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        self.inp = nn.Linear(8, width)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.blocks(self.inp(x))).squeeze(-1)


def train_step(model, optimizer, scaler, x, y, limit=1.0):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x).float(), y)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    norm = get_total_norm([p.grad for p in model.parameters()])
    clip_grads_with_norm_(model.parameters(), limit, norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.item(), norm.item()


model = Regressor()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
for step in range(120):
    x = torch.randn(32, 8)
    loss, norm = train_step(model, optimizer, scaler, x, x[:, :4].prod(1) + x[:, 4])
    if step % 30 == 0:
        print(step, loss, norm)
