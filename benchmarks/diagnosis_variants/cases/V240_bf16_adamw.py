"""Continue training of a small residual network in bfloat16 with a low rate."""
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.head(x).squeeze(-1)


def main(steps=150):
    torch.manual_seed(0)
    model = Residual(32, 3)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    x = torch.randn(256, 32)
    y = (x[:, :4].prod(1)).to(torch.bfloat16)
    for step in range(steps):
        pick = torch.randint(0, 256, (64,))
        loss = nn.functional.mse_loss(model(x[pick].to(torch.bfloat16)), y[pick])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 30 == 0:
            print(step, loss.item())


main()
