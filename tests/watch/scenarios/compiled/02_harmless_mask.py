import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, dim=8, length=6):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, 1)
        self.register_buffer("keep", torch.ones(length, length).tril().bool())

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = (q @ k.transpose(-1, -2)).masked_fill(~self.keep, float("-inf"))
        return self.out(torch.softmax(scores, dim=-1) @ v)


net = Attention()
run = torch.compile(net, backend=globals().get("BACKEND", "aot_eager"))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(3):
    x = torch.randn(4, 6, 8)
    optimizer.zero_grad()
    loss = F.mse_loss(run(x), x.mean(-1, keepdim=True))
    loss.backward()
    optimizer.step()
    print("step", step, "loss", float(loss.detach()))
