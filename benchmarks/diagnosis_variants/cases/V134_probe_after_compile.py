import torch
from torch import nn

torch.manual_seed(304)


class Mixer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(3))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


net = Mixer()
net.compile(backend="aot_eager")
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
seen = {"norm": 0.0, "calls": 0}


def watch(module, args):
    seen["calls"] += 1
    seen["norm"] += args[0].detach().norm().item()


x = torch.randn(320, 32)
y = x[:, :4].argmax(1)
net(x[:32]).sum().backward()  # warm up the compiler
net.blocks[1].register_forward_pre_hook(watch)
for step in range(60):
    rows = torch.randint(0, 320, (32,))
    loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
    opt.zero_grad()
    loss.backward()
    opt.step()
print("mean norm", seen["norm"] / max(seen["calls"], 1), "calls", seen["calls"], "loss", loss.item())
