import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Entropy(nn.Module):
    """The log of a negative number in step 2, inside compiled code."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x, shift):
        h = torch.sigmoid(self.inner(x)) + shift
        h = torch.log(h)
        return self.head(torch.tanh(h))


net = Entropy()
run = torch.compile(net, backend=globals().get("BACKEND", "aot_eager"))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(4):
    x = torch.randn(5, 4)
    shift = torch.full((1,), -2.0 if step == 2 else 0.5)
    optimizer.zero_grad()
    loss = F.mse_loss(run(x, shift), x.mean(-1, keepdim=True))
    loss.backward()
    optimizer.step()
    print("step", step, "loss", float(loss.detach()))
