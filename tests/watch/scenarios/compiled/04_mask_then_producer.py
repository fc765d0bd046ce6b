import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    """A causal mask, which is harmless, and in step 1 the log of negative numbers, which is not."""

    def __init__(self, dim=4, length=3):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.register_buffer("keep", torch.ones(length, length).tril().bool())

    def forward(self, x, shift):
        scores = (x @ self.inner(x).transpose(-1, -2)).masked_fill(~self.keep, float("-inf"))
        bias = torch.log(torch.sigmoid(x) + shift)
        return torch.softmax(scores, dim=-1) @ bias


net = Attention()
run = torch.compile(net, backend=globals().get("BACKEND", "aot_eager"))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(3):
    x = torch.randn(2, 3, 4)
    shift = torch.full((1,), -2.0 if step == 1 else 0.5)
    optimizer.zero_grad()
    loss = F.mse_loss(run(x, shift), x)
    loss.backward()
    optimizer.step()
    print("step", step, "loss", float(loss.detach()))
