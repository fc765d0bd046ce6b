"""Mixed precision with a gradient scaler, in an own loop object."""
import torch
from torch import nn


class Loop:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        nn.utils.clip_grad_value_(self.model.parameters(), 0.5)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()


torch.manual_seed(0)
loop = Loop(nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 5)))
w = torch.randn(16, 5)
for step in range(80):
    x = torch.randn(32, 16)
    value = loop.step(x, (x @ w).argmax(1))
    if step % 20 == 0:
        print(step, value)
